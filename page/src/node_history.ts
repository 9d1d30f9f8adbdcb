// The last ten minutes of the nodes, in bounded memory: what the sparklines of the live page show.

import type { GpuColumns, NodesView } from "./document";

export const SPAN = 600; // seconds
const MOST_SAMPLES = 150;
/** Missing values are NaN: 1,250 nodes are 5,000 bytes in each sample. */
export type Series = Float32Array;
export const FIGURES = ["use", "gpuMemory", "temperature", "load", "memory", "disk"] as const;
export type Figure = (typeof FIGURES)[number];

/** Of each node, in percent or °C; of its GPUs the mean, and of their temperatures the highest. */
export type NodeFigures = Record<Figure, Series>;

interface Sample {
  at: number; // seconds
  hosts: string[];
  figures: NodeFigures;
}

export interface Point {
  at: number;
  middle: number;
  low: number;
  high: number;
}

export function figuresOf(view: NodesView): NodeFigures {
  const { gpus, hosts } = view;
  return {
    use: overGpus(gpus, gpus.use, hosts.length, mean),
    gpuMemory: overGpus(gpus, gpus.memory, hosts.length, mean),
    temperature: overGpus(gpus, gpus.temperature, hosts.length, (values) => Math.max(...values)),
    load: Float32Array.from(view.load, known),
    memory: Float32Array.from(view.memory, known),
    disk: Float32Array.from(view.disk, known),
  };
}

export class NodeHistory {
  private samples: Sample[] = [];

  add(view: NodesView): void {
    const at = Date.parse(view.time) / 1000;
    const last = this.samples.at(-1);
    if (!Number.isFinite(at) || (last && at < last.at + SPAN / MOST_SAMPLES)) return;
    const isSame = last?.hosts.length === view.hosts.length && last.hosts.every((host, index) => host === view.hosts[index]);
    this.samples.push({ at, hosts: isSame ? last!.hosts : view.hosts, figures: figuresOf(view) });
    this.samples = this.samples.filter((sample) => sample.at > at - SPAN).slice(-MOST_SAMPLES);
  }

  /** Of these nodes at each time: the mean, and the least and the most of any. */
  of(hosts: ReadonlySet<string>, figure: Figure): Point[] {
    const points: Point[] = [];
    for (const { at, hosts: names, figures } of this.samples) {
      const values: number[] = [];
      names.forEach((host, index) => { if (hosts.has(host) && !Number.isNaN(figures[figure][index])) values.push(figures[figure][index]); });
      if (values.length) points.push({ at, middle: mean(values), low: Math.min(...values), high: Math.max(...values) });
    }
    return points;
  }

  get end(): number {
    return this.samples.at(-1)?.at ?? 0;
  }

  get isEmpty(): boolean {
    return this.samples.length < 2;
  }
}

const known = (value: number | null): number => value ?? NaN;
const mean = (values: number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

function overGpus(gpus: GpuColumns, column: (number | null)[], size: number, joined: (values: number[]) => number): Series {
  const values: number[][] = [];
  column.forEach((value, index) => { if (value !== null) (values[gpus.node[index]] ??= []).push(value); });
  return Float32Array.from({ length: size }, (_, node) => (values[node] ? joined(values[node]) : NaN));
}
