export type { SqlTransaction } from "../lease/index.js";
export { type Guard, type GuardOptions, memoryGuard, type Refusal } from "./guard.js";
export {
  FENCING_HEADER,
  type Fencing,
  type FencingOptions,
  type FencingProblem,
  fencing,
} from "./http.js";
export { type RedisGuard, type RedisWrite, redisGuard } from "./redis.js";
export {
  FENCE_TABLE,
  type FenceOptions,
  fence,
  type SqlGuard,
  sqlGuard,
  staleTokenError,
} from "./sql.js";
