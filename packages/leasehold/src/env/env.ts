import { type Clock, systemClock } from "./clock.js";
import { guardedLogger } from "./guarded-logger.js";
import { type Logger, silentLogger } from "./logger.js";
import { type Random, systemRandom } from "./random.js";
import { type Scope, systemScope } from "./scope.js";
import { guardedTelemetry, type Telemetry } from "./telemetry.js";

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

/** The same world, whose logger and telemetry, code of the program, never throw. */
export function guardedEnv(env: Env): Env {
  const { logger, telemetry } = env;
  return {
    ...env,
    logger: guardedLogger(logger),
    ...(telemetry && { telemetry: guardedTelemetry(telemetry) }),
  };
}

/** The outside world, with what the options of a client name. */
export function envFrom({
  logger = silentLogger,
  env = {},
}: {
  readonly logger?: Logger;
  readonly env?: Partial<Env>;
}): Env {
  return guardedEnv({ ...systemEnv, logger, ...env });
}
