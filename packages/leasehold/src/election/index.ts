export {
  type Elector,
  type ElectorOptions,
  type ElectorState,
  electorOver,
  type LeaderWork,
  type Term,
} from "./elector.js";
export type { LeaderChange } from "./observer.js";
export { type Shards, type ShardsOptions, type ShardWork, shardsOver } from "./shards.js";
export {
  type Singleton,
  type SingletonOptions,
  type SingletonWork,
  singletonOver,
} from "./singleton.js";
