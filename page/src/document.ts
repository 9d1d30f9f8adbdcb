// What the page is given. src/rankdbg/frontends/html/document.py has the same types and says more.

/** Places of ranks in the table: `0-6,8`. */
export type RankSet = string;

export interface RankColumns {
  numbers: (number | null)[];
  roles: string[];
  role: number[];
  hosts: string[];
  host: number[];
  states: string[];
  state: number[];
  pids: number[];
  locals: (number | null)[];
  dimensions: string[];
  coordinates: (number | null)[][];
  outside: RankSet;
  notes: string[];
  note: number[];
}

export interface Fact {
  name: string;
  text: string;
  tag: string;
  more: string;
}

export interface ChainNode {
  kind: string;
  role: string;
  title: string;
  lines: string[];
  ranks: RankSet;
  hot: boolean;
}

export interface ChainEdge {
  source: number;
  target: number;
  label: string;
}

export interface VerdictView {
  stuck: boolean;
  state: string;
  says: string;
  title: string;
  subtitle: string;
  facts: Fact[];
  further: Fact[][];
  confidence: string;
  evidence: string[];
  culprits: RankSet;
  mark: string;
  waiting: RankSet;
  nodes: ChainNode[];
  edges: ChainEdge[];
  left_out: number;
  notes: string[];
  logs: string;
}

export interface ColourClass {
  text: string;
  at: string;
  says: string;
  code: boolean;
  odd: boolean;
  ranks: RankSet;
}

export interface Colouring {
  name: string;
  columns: string[];
  classes: ColourClass[];
}

export interface EqualStacks {
  frames: number[];
  moving: boolean;
  ranks: RankSet;
}

export interface ThreadView {
  name: string;
  groups: EqualStacks[];
}

export interface FrameView {
  function: string;
  at: string;
  file: string;
  line: number;
  own: boolean;
}

export interface LaneRow {
  ranks: RankSet;
  text: string;
  mark: string;
}

export interface Lane {
  group: string;
  groups: number;
  operation: string;
  members: RankSet;
  entered: RankSet;
  missing: RankSet;
  seconds: number | null;
  waits: boolean;
  rows: LaneRow[];
}

export interface StayView {
  phase: number;
  begin: number;
  end: number;
  text: string;
}

export interface PhaseRow {
  ranks: RankSet;
  name: string;
  stack: string;
  stays: StayView[];
  silent: number;
  says: string;
  stalled: boolean;
}

export interface ChartLineView {
  name: string;
  ranks: RankSet;
  values: (number | null)[];
  odd: boolean;
}

export interface ChartView {
  name: string;
  unit: string;
  steps: number[];
  times: number[];
  low: (number | null)[];
  middle: (number | null)[];
  high: (number | null)[];
  lines: ChartLineView[];
  count: number;
  of: string;
}

export interface MarkView {
  time: number;
  kind: string;
  text: string;
  line: string;
  ranks: RankSet;
}

export interface TimeView {
  begin: number;
  end: number;
  phases: string[];
  rows: PhaseRow[];
  more_rows: number;
  charts: ChartView[];
  marks: MarkView[];
}

export interface NodeHealth {
  kind: string;
  text: string;
  more: number;
  next: string;
}

export interface GpuColumns {
  node: number[];
  index: number[];
  use: (number | null)[];
  memory: (number | null)[];
  temperature: (number | null)[];
  troubled: string;
  names: string[];
}

export interface NodesView {
  time: string;
  hosts: string[];
  ranks: RankSet[];
  health: NodeHealth[];
  of: number[];
  load: (number | null)[];
  processors: number[];
  memory: (number | null)[];
  memory_size: number[];
  disk: (number | null)[];
  disks: string[];
  fullest: number[];
  gpus: GpuColumns;
}

export interface SideView {
  name: string;
  ranks: RankSet;
}

export interface ProfileView {
  unit: string;
  least: number;
  ranks: number[];
  sides: SideView[];
  frames: FrameView[];
  frame: number[];
  parents: number[];
  shares: (number[] | null)[];
}

export interface PageDocument {
  schema: string;
  version: string;
  command: string;
  job: string;
  target: string;
  time: string;
  ranks: RankColumns;
  verdict: VerdictView;
  colourings: Colouring[];
  frames: FrameView[];
  threads: ThreadView[];
  samples: number;
  lanes: Lane[];
  more_lanes: number;
  sentences: string[];
  times: TimeView | null;
  nodes: NodesView | null;
  profile: ProfileView | null;
  findings: string;
}
