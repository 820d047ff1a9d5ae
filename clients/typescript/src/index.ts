/** Reports of local and shuffle differential privacy, made where the values are. */

export { armOf } from "./arms.js";
export { inputs, perturb } from "./channels.js";
export { slotLevels, slotWords } from "./counters.js";
export { Device, type DeviceOptions, FORMAT, type NameOf, type RowsOf } from "./device.js";
export { freshCoins, toGrid } from "./encoders.js";
export { type Role, WindowKeys } from "./keys.js";
export { permanentCoins, permanentMessages } from "./permanent.js";
export type * from "./plan.js";
export {
  type Bytes,
  dice16,
  dice32,
  hex,
  integers,
  Keystream,
  type Source,
  SystemSource,
  unhex,
  words,
} from "./random.js";
export { deviceDraw, deviceId } from "./report.js";
export { type Answer, type Backoff, exchange, post } from "./post.js";
export { type Outcome, Reporter, type ReporterOptions, type StringsOptions } from "./reporter.js";
export { PublicKey } from "./sealing.js";
export { browserStore, keptSecret, type Store } from "./store.js";
export { type StringOptions, StringRequest } from "./strings.js";
export { encoded, TokenRequest } from "./tokens.js";
export { declaration } from "./types.js";
export type { TokenOptions } from "./wallet.js";
