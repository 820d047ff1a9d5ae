/** Reports of local and shuffle differential privacy, made where the values are. */

export { inputs, perturb } from "./channels.js";
export { slotLevels, slotWords } from "./counters.js";
export { Device, type DeviceOptions, FORMAT } from "./device.js";
export { freshCoins, toGrid } from "./encoders.js";
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
export { PublicKey } from "./sealing.js";
