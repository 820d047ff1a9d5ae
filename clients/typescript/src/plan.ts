/** What `hushbeam check --json` says to clients: docs/client.schema.json has the schema. */

export interface KAryResponse {
  channel: "k-ary response";
  inputs: number;
  order: number;
  miss: string;
}

export interface LinearHash {
  channel: "linear hash";
  inputs: number;
  order: number;
  polynomial: number | null;
  digits: number;
  miss: string;
}

export interface ProjectiveGeometry {
  channel: "projective geometry";
  inputs: number;
  order: number;
  polynomial: number | null;
  digits: number;
  on: string;
  off: string;
}

export interface SlidingWindow {
  channel: "sliding window";
  cells: number;
  steps: number;
  width: number;
  outside: string;
  inside: string;
  lower: number[];
  chance: string[];
}

export interface WithUnusable {
  channel: "with unusable";
  number: SlidingWindow;
  chance: string;
  shift: number;
  threshold: string[];
  alias: number[];
}

export interface Dummies {
  channel: "dummies";
  inputs: number;
  first: number;
  ends: string[];
}

export interface NumberUnits {
  low: number;
  high: number;
  origin: number;
  bound: number;
  units: number;
  sign: number;
}

export interface GroupTotals {
  raises: "totals";
  groups: number;
  most_groups: number;
  most: number;
  digits: "whole" | "signed" | "lifted" | "ends" | "moments";
  least: number;
  weights: number[];
  numbers: NumberUnits | null;
  averaged: boolean;
  present: boolean;
  beside: string[];
}

export interface TreePath {
  raises: "path";
  bins: number;
  sizes: number[];
}

export interface Counters {
  channel: "counters";
  levels: { slots: number; counters: number }[];
  unit: GroupTotals | TreePath;
}

export type Perturbing =
  | KAryResponse
  | LinearHash
  | ProjectiveGeometry
  | SlidingWindow
  | WithUnusable
  | Dummies;
export type Channel = Perturbing | Counters;

export interface Domain {
  declared: number;
  other: boolean;
  low: string | null;
  values: string[] | null;
  sha256: string | null;
}

export interface Values {
  encoder: "values";
  column: string;
  domain: Domain;
  unusable: number | null;
}

export interface Numbers {
  encoder: "numbers";
  column: string;
  low: number;
  high: number;
  cells: number;
  unusable: number | null;
  fill: number | null;
}

export interface Bins {
  encoder: "bins";
  column: string;
  low: number;
  high: number;
  bins: number;
}

export interface Groups {
  encoder: "groups";
  columns: { column: string; domain: Domain }[];
  number: string | null;
  whole: boolean;
}

export type Encoder = Values | Numbers | Bins | Groups;

export interface ClientMetric {
  form: number;
  sealable: boolean;
  encoder: Encoder;
  channel: Channel;
  draws: { first: string; last: string } | null;
  permanent: { fingerprint: string; law: string; rounding: string | null } | null;
}

export interface Metric {
  place: number;
  name: string;
  kind: string;
  client: ClientMetric | null;
}

export interface Plan {
  format: number;
  collection: string;
  version: number;
  one_report: boolean;
  noise: "fresh" | "permanent";
  /** How many reports of a user are taken in a window, each paid for with a token. */
  tokens: number | null;
  window: { name: string; fingerprint: string } | null;
  metrics: Metric[];
}

/** What a column holds: `null` is what is missing. */
export type Value = string | number | boolean | null;

/** A row of whatever is collected: all columns that a metric names, and no others. */
export type Row = Record<string, Value>;
