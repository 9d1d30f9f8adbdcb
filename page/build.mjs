// Builds the page into the Python package. The first line of each file names the sources it was
// built from, by their hash: tests/unit/frontends/html/test_built_page.py compares it.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync, mkdirSync } from "node:fs";
import { basename } from "node:path";
import { build } from "esbuild";

const here = new URL("./", import.meta.url);
const sources = ["build.mjs", "package-lock.json", "package.json", "tsconfig.json"]
  .concat(readdirSync(new URL("src/", here)).map((name) => `src/${name}`))
  .sort();
const hash = createHash("sha256");
for (const name of sources) {
  const content = readFileSync(new URL(name, here));
  hash.update(`${name}\0${content.length}\0`).update(content);
}
const banner = `/* built from page/ by make page: ${hash.digest("hex")} */`;

const made = await build({
  absWorkingDir: here.pathname,
  entryPoints: { page: "src/main.ts", live: "src/live.ts", style: "src/page.css" },
  bundle: true,
  minify: true,
  format: "iife",
  target: ["es2022", "chrome123", "firefox120", "safari17.5"],
  charset: "ascii", // so that a script is the same in every encoding
  legalComments: "none",
  write: false,
  outdir: "out",
});
const out = new URL("../src/rankdbg/frontends/html/built/", here);
mkdirSync(out, { recursive: true });
for (const file of made.outputFiles) {
  const name = file.path.endsWith(".css") ? "page.css" : basename(file.path);
  if (/<\/(script|style)|<!--/i.test(file.text)) throw new Error(`${name} would end its element`);
  writeFileSync(new URL(name, out), `${banner}\n${file.text.trim()}\n`);
}
