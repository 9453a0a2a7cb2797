import { type Clock, systemClock } from "./clock.js";
import { type Logger, silentLogger } from "./logger.js";
import { type Random, systemRandom } from "./random.js";

export { InvariantError, invariant } from "./assert.js";
export { type Clock, sleep, systemClock, type Timer } from "./clock.js";
export { grantIdOf, newHolder, newLeaseId, newTaskId, taskLeaseId } from "./ids.js";
export { type Logger, silentLogger } from "./logger.js";
export { jittered, type Random, systemRandom } from "./random.js";
export { type Repeating, repeat } from "./repeat.js";
export { nextTurn } from "./turn.js";

/** The outside world as values. Everything that reads time or chance is given one of these. */
export interface Env {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
}

/** The real world, silent. */
export const systemEnv: Env = { clock: systemClock, random: systemRandom, logger: silentLogger };
