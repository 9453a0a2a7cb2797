import { type Clock, systemClock } from "./clock.js";
import { type Logger, silentLogger } from "./logger.js";
import { type Random, systemRandom } from "./random.js";
import { type Scope, systemScope } from "./scope.js";
import type { Telemetry } from "./telemetry.js";

/** The outside world as values. Everything that reads time or chance is given one of these. */
export interface Env {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** Where measurements and traces go. Default: nowhere, at no cost. */
  readonly telemetry?: Telemetry | undefined;
  /** Tells nested calls from concurrent ones. Default: nested calls are not detected. */
  readonly scope?: Scope | undefined;
}

/** The real world, silent. */
export const systemEnv: Env = {
  clock: systemClock,
  random: systemRandom,
  logger: silentLogger,
  scope: systemScope,
};
