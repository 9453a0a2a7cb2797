export {
  Elector,
  type ElectorOptions,
  type ElectorState,
  type LeaderWork,
  type Term,
} from "./elector.js";
export type { LeaderChange } from "./observer.js";
export { Shards, type ShardsOptions, type ShardWork } from "./shards.js";
export { Singleton, type SingletonOptions, type SingletonWork } from "./singleton.js";
