// The ranks of the job by their labels, and what some of them are called.

import type { RankColumns } from "./document";
import { formatNumbers, maskOf, membersOf, placesOf, type Mask } from "./sets";

export class Ranks {
  readonly size: number;
  readonly outside: Mask;
  readonly all: Mask;
  private readonly extents: number[][];
  private readonly severalRoles: boolean;
  private readonly numbersAreNames: boolean;

  constructor(readonly columns: RankColumns) {
    this.size = columns.numbers.length;
    this.outside = maskOf(placesOf(columns.outside), this.size);
    this.all = new Uint8Array(this.size).fill(1);
    this.extents = columns.coordinates.map((column) => {
      const values = column.filter((value): value is number => value !== null);
      return [...new Set(values)].sort((a, b) => a - b);
    });
    this.severalRoles = columns.roles.length > 1;
    const names = new Set(columns.numbers.map((number, place) => `${columns.role[place]} ${number}`));
    this.numbersAreNames = names.size === this.size && !columns.numbers.includes(null);
  }

  role = (place: number): string => this.columns.roles[this.columns.role[place]];
  host = (place: number): string => this.columns.hosts[this.columns.host[place]];
  note = (place: number): string => this.columns.notes[this.columns.note[place]] ?? "";

  name(place: number): string {
    const number = this.columns.numbers[place];
    if (number === null) return this.role(place) || `pid ${this.columns.pids[place]}`;
    return `${(this.severalRoles && this.role(place)) || "rank"} ${number}`;
  }

  coordinates(place: number): string {
    const { dimensions, coordinates } = this.columns;
    return dimensions
      .map((name, index) => [name, coordinates[index][place]])
      .filter(([, value]) => value !== null)
      .map(([name, value]) => `${name}=${value}`)
      .join(" ");
  }

  process(place: number): string {
    const pid = this.columns.pids[place];
    const local = this.columns.locals[place];
    if (!pid) return this.host(place) || "no process"; // of a rank that only logs name
    return [this.host(place), local === null ? "" : `local rank ${local}`, `pid ${pid}`].filter(Boolean).join(" · ");
  }

  /** The numbers along a dimension that any rank has. */
  extent(index: number): number[] {
    return this.extents[index];
  }

  // ---- some ranks as a selection that can be pasted into a command line

  text(mask: Mask): string {
    const members = membersOf(mask);
    if (!members.length) return "";
    if (members.length === this.size && this.size > 1) return "all";
    const plain = this.byNumber(members);
    const shorter = members.length > 1 ? this.byCoordinates(members) : "";
    return shorter && shorter.length <= plain.length + 6 ? shorter : plain;
  }

  /** `0-6,8`, or `Trainer 0-4,6, driver` where there are several roles; else by host and pid. */
  private byNumber(members: number[]): string {
    const { numbers } = this.columns;
    if (!this.severalRoles && this.numbersAreNames) return formatNumbers(members.map((place) => numbers[place]!));
    const roles = new Map<number, number[]>();
    for (const place of members) roles.set(this.columns.role[place], [...(roles.get(this.columns.role[place]) ?? []), place]);
    const texts: string[] = [];
    const left: number[] = [];
    for (const [role, places] of roles) {
      const text = this.ofRole(role, places);
      if (text) texts.push(text);
      else left.push(...places);
    }
    return [...(texts.length ? [texts.join(", ")] : []), ...(left.length ? [this.byProcess(left)] : [])].join("; ");
  }

  /** `` where role and numbers are not enough to name these and no others. */
  private ofRole(role: number, places: number[]): string {
    const { numbers, roles, role: column } = this.columns;
    const name = roles[role];
    if (!name || /["'*?[\]]/.test(name)) return "";
    const everyone = column.flatMap((each, place) => (each === role ? [place] : []));
    const shown = /^[A-Za-z_][\w.-]*$/.test(name) && name !== "all" ? name : `"${name}"`;
    const known = everyone.map((place) => numbers[place]);
    if (!known.includes(null) && new Set(known).size === known.length) return `${shown} ${formatNumbers(places.map((place) => numbers[place]!))}`;
    return places.length === everyone.length ? shown : "";
  }

  private byProcess(members: number[]): string {
    const hosts = new Map<string, number[]>();
    for (const place of members) hosts.set(this.host(place), [...(hosts.get(this.host(place)) ?? []), this.columns.pids[place]]);
    return [...hosts].map(([host, some]) => `host=${quoted(host)},pid=${listed(formatNumbers(some))}`).join("; ");
  }

  /** How many ranks have these coordinates; no more than one above `most` are counted. */
  private matching(wanted: Set<number | null>[], most: number): number {
    const { coordinates } = this.columns;
    let found = 0;
    for (let place = 0; place < this.size && found <= most; place++)
      if (wanted.every((values, index) => values.has(coordinates[index][place]))) found++;
    return found;
  }

  /** `dp=7`, if the members are all ranks with these coordinates. */
  private byCoordinates(members: number[]): string {
    const { dimensions, coordinates } = this.columns;
    const terms: string[] = [];
    const wanted = coordinates.map((column) => new Set(members.map((place) => column[place])));
    if (!dimensions.length || wanted.some((values) => values.has(null))) return "";
    if (this.matching(wanted, members.length) !== members.length) return "";
    dimensions.forEach((name, index) => {
      const values = wanted[index] as Set<number>;
      if (values.size < this.extent(index).length) terms.push(`${name}=${listed(formatNumbers(values))}`);
    });
    return terms.join(",");
  }
}

const listed = (text: string): string => (text.includes(",") ? `(${text})` : text);
const quoted = (text: string): string => (/^[\w.-]+$/.test(text) ? text : `"${text}"`);
