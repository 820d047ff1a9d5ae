/** A device: from its own rows to the bytes that it sends, by what `check --json` says alone. */

import { known, perturb } from "./channels.js";
import { slotLevels, slotWords } from "./counters.js";
import type { Coins } from "./encoders.js";
import { binsOf, Domain, freshCoins, groupsOf, numbersOf, valuesOf } from "./encoders.js";
import { permanentCoins, permanentMessages } from "./permanent.js";
import type * as plan from "./plan.js";
import { type Bytes, integers, joined, type Source, SystemSource } from "./random.js";
import * as reports from "./report.js";
import { checkedRows } from "./rows.js";
import type { PublicKey } from "./sealing.js";
import { type StringOptions, StringRequest } from "./strings.js";

export const FORMAT = 1;

export interface DeviceOptions {
  /** 32 random bytes that this device keeps for ever: its reports are named under them. */
  secret: Bytes;
  /** Values of columns of which the plan tells a hash alone. */
  values?: Record<string, string[]>;
  /** Opens a source of randomness; another than the system's is for tests. */
  open?: () => Source | Promise<Source>;
}

/** The row of each metric by name: `hushbeam-types` writes such an interface of a plan. */
export type RowsOf<Metrics> = { [Name in keyof Metrics]: object };
export type NameOf<Metrics> = keyof Metrics & string;
type Made = Promise<Bytes | null>;
type Named = Promise<{ id: Bytes; message: bigint }[]>;
type OneColumn = Exclude<plan.Encoder, plan.Groups>;

/** One user's reports. */
export class Device<Metrics extends RowsOf<Metrics> = Record<string, plan.Row>> {
  private readonly window: { name: string; fingerprint: string };
  private readonly open: () => Source | Promise<Source>;
  private readonly secret: Bytes;

  constructor(
    private readonly plan: plan.Plan,
    private readonly options: DeviceOptions,
  ) {
    if (plan.format !== FORMAT) throw new Error(`the plan is of format ${plan.format}: update`);
    if (plan.window === null) throw new Error("the plan names no window: check --json --window");
    this.secret = secretOf(options.secret);
    this.window = plan.window;
    this.open = options.open ?? (() => new SystemSource());
  }

  /** A file of plain reports; `null` if there is nothing to report, or others are asked. */
  async report<N extends NameOf<Metrics>>(name: N, given: readonly Metrics[N][]): Made {
    const { client, place, rows } = metricOf(this.plan, name, given);
    const mark = reports.markOf(this.window, place);
    if (client.form !== reports.PLAIN) {
      throw new Error(`metric ${name}: nothing hides its reports but seals: seal them`);
    }
    const sent = await this.messages(client, mark, rows);
    const records = sent.map(({ id, message }) => reports.plain(mark, id, message));
    return records.length ? joined(reports.header(mark, reports.PLAIN), ...records) : null;
  }

  /** The same, for the collector's eyes alone. */
  async sealed<N extends NameOf<Metrics>>(
    name: N,
    given: readonly Metrics[N][],
    key: PublicKey,
  ): Made {
    const { client, place, rows } = metricOf(this.plan, name, given);
    const mark = reports.markOf(this.window, place);
    if (client.form === reports.SLOTS) return this.slots(client, mark, rows, key);
    if (!client.sealable) {
      throw new Error(`metric ${name}: the shuffler has to read its reports' groups`);
    }
    const records: Bytes[] = [];
    for (const { id, message } of await this.messages(client, mark, rows)) {
      records.push(await reports.sealed(mark, id, message, key));
    }
    return records.length ? joined(reports.header(mark, reports.SEALED), ...records) : null;
  }

  /**
   * A request for the seals of a user's strings, of a metric that counts them by a threshold. The
   * plan's JSON does not describe those. Of more strings than slots some are drawn.
   */
  async strings(
    name: string,
    texts: readonly string[],
    options: StringOptions,
    key: PublicKey,
  ): Promise<StringRequest> {
    const metric = this.plan.metrics.find((each) => each.name === name);
    if (metric === undefined) throw new Error(`the plan has no metric ${name}`);
    const [mark, source] = [reports.markOf(this.window, metric.place), await this.open()];
    const id = await this.id(mark, source);
    return StringRequest.drawn(mark, id, texts, options, key, source);
  }

  /** Whether this device answers the metric, where each answers one of several. */
  private async answers(client: plan.ClientMetric, mark: reports.Mark): Promise<boolean> {
    if (client.draws === null) return true;
    if (!this.plan.one_report) throw new Error("rows that answer one metric of several: not here");
    const draw = await reports.deviceDraw(this.secret, mark);
    return BigInt(client.draws.first) <= draw && draw <= BigInt(client.draws.last);
  }

  private async messages(client: plan.ClientMetric, mark: reports.Mark, rows: plan.Row[]): Named {
    const { encoder, channel, permanent } = client;
    const { secret } = this;
    if (channel.channel === "counters" || encoder.encoder === "groups") {
      throw new Error("counters are sealed slot by slot");
    }
    if (!(await this.answers(client, mark))) return [];
    const source = await this.open();
    const coins = permanent
      ? permanentCoins(secret, permanent, mark.place)
      : freshCoins(await this.open());
    let cells = await this.cells(encoder, rows, coins);
    if (!cells.length) return [];
    if (this.plan.one_report) {
      const [chosen] = await integers(source, BigInt(cells.length), 1);
      cells = [cells[Number(chosen)]];
    }
    const sent = permanent
      ? await permanentMessages(secret, permanent, mark.place, channel, cells[0])
      : await perturb(channel, cells, source);
    const named = [];
    for (const message of sent) named.push({ id: await this.id(mark, source), message });
    return named;
  }

  /** The user's id, or a random one where rows are nobody's. */
  private id(mark: reports.Mark, source: Source): Promise<Bytes> {
    return this.plan.one_report ? reports.deviceId(this.secret, mark) : source.bytes(16);
  }

  private async cells(encoder: OneColumn, rows: plan.Row[], coins: Coins): Promise<number[]> {
    switch (encoder.encoder) {
      case "values":
        return valuesOf(encoder, await this.domain(encoder), rows);
      case "numbers":
        return numbersOf(encoder, rows, coins);
      case "bins":
        return binsOf(encoder, rows);
    }
  }

  private domain({ domain, column }: { domain: plan.Domain; column: string }): Promise<Domain> {
    const { values = {} } = this.options;
    return Domain.of(domain, column, Object.hasOwn(values, column) ? values[column] : undefined);
  }

  /** One report of all rows of the user; or of each row one, where rows are nobody's. */
  private async slots(
    client: plan.ClientMetric,
    mark: reports.Mark,
    rows: plan.Row[],
    key: PublicKey,
  ): Promise<Bytes | null> {
    const { encoder, channel } = client;
    if (channel.channel !== "counters" || !(await this.answers(client, mark))) return null;
    const records: Bytes[] = [];
    for (const unit of this.plan.one_report ? [rows] : rows.map((row) => [row])) {
      const source = await this.open();
      let [groups, numbers]: [number[], number[] | null] = [[], null];
      if (encoder.encoder === "groups") {
        const domains = await Promise.all(encoder.columns.map((column) => this.domain(column)));
        ({ groups, numbers } = groupsOf(encoder, domains, unit));
      } else {
        groups = await this.cells(encoder, unit, freshCoins(source));
      }
      const words = await slotWords(channel, groups, numbers, source);
      if (words === null) continue;
      const id = await this.id(mark, source);
      records.push(await reports.slots(mark, id, words, slotLevels(channel), key));
    }
    return records.length ? joined(reports.header(mark, reports.SLOTS), ...records) : null;
  }
}

/** A metric of a plan, and rows that fit it: whatever does not is refused. */
export function metricOf(plan: plan.Plan, name: string, given: unknown) {
  const metric = plan.metrics.find((each) => each.name === name);
  if (metric === undefined) throw new Error(`the plan has no metric ${name}`);
  const { client, place } = metric;
  if (client === null || !known(client.channel.channel)) {
    throw new Error(`metric ${name}: this client does not know its mechanism`);
  }
  return { client, place, rows: checkedRows(name, client.encoder, given) };
}

/** A copy of a secret that may be one. */
function secretOf(secret: Bytes): Bytes {
  const kind = Object.prototype.toString.call(secret); // frames have a Uint8Array of their own
  if (kind !== "[object Uint8Array]" || secret.length !== 32 || new Set(secret).size === 1) {
    throw new Error("the secret must be a Uint8Array of 32 random bytes, never all the same");
  }
  return new Uint8Array(secret); // a Buffer's own `slice` would share the memory
}
