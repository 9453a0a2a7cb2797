/**
 * What this instance refuses because more is asked of it than there is, and which tenants their own limits hold back:
 *
 *   refused   refused                refused      15 s
 *      ├─────────┴──────────────────────┴───────────┤
 *      held back for 0 s  ...  for as long as this  not any more
 *
 * One log line covers many refusals: logging each would add to the load.
 */
import type { Clock, Env } from "leasehold";
import type { Telemetry } from "leasehold/telemetry";
import type { Caller } from "./auth/caller.js";
import type { Admission } from "./limits/admission.js";
import { ProblemError, type Scarce } from "./problems.js";
import { Sampler } from "./sampler.js";

const LOG_EVERY_MS = 10_000;
/** Longer than clients wait before they try again. */
const OVER_MS = 15_000;
/** How long a tenant is held back before the log says so, and says so again. */
const LOG_TENANT_MS = 60_000;

/** Refusals of a tenant without a pause. */
interface Row {
  readonly sinceMs: number;
  lastMs: number;
  loggedMs: number;
  /** Since the last log line. */
  refused: number;
}

export class Refusals {
  readonly #clock: Clock;
  readonly #logger: Env["logger"];
  readonly #telemetry: Telemetry | undefined;
  readonly #overloaded: Sampler;
  readonly #noteOverloaded: (refused: number) => void;
  readonly #tenants = new Map<string, Row>();

  constructor(
    { clock, logger }: Pick<Env, "clock" | "logger">,
    telemetry: Telemetry | undefined,
    admission: Pick<Admission, "load">,
  ) {
    this.#clock = clock;
    this.#logger = logger;
    this.#telemetry = telemetry;
    this.#noteOverloaded = (refused) => {
      const fields = { event: "overloaded", refused, ...admission.load };
      logger.warn(fields, "this instance is overloaded and refuses requests");
    };
    const period = { most: 1, everyMs: LOG_EVERY_MS };
    this.#overloaded = new Sampler(clock, period, this.#noteOverloaded);
  }

  /** For how long the tenant has been held back that has been for longest; 0: none is. */
  get longestMs(): number {
    const nowMs = this.#clock.monotonic();
    let longestMs = 0;
    for (const [namespace, { sinceMs, lastMs }] of this.#tenants) {
      if (nowMs - lastMs >= OVER_MS) this.#tenants.delete(namespace);
      else longestMs = Math.max(longestMs, lastMs - sinceMs);
    }
    return longestMs;
  }

  /**
   * Notes an answer, if it is such a refusal.
   * @param caller undefined: it is not known
   */
  note(error: unknown, caller?: Caller): void {
    const scarce = error instanceof ProblemError ? error.init.scarce : undefined;
    if (scarce === undefined) return;
    this.#telemetry?.count("leasehold.server.refused", { reason: scarce });
    if (scarce !== "capacity") {
      if (caller) this.#noteTenant(caller.namespace, scarce);
    } else if (this.#overloaded.admits()) this.#noteOverloaded(1);
  }

  close(): void {
    this.#overloaded.close();
  }

  #noteTenant(namespace: string, reason: Scarce): void {
    const nowMs = this.#clock.monotonic();
    const known = this.#tenants.get(namespace);
    const goesOn = known !== undefined && nowMs - known.lastMs < OVER_MS;
    const row = goesOn ? known : { sinceMs: nowMs, lastMs: nowMs, loggedMs: nowMs, refused: 0 };
    if (!goesOn) this.#tenants.set(namespace, row);
    row.lastMs = nowMs;
    row.refused += 1;
    if (nowMs - row.loggedMs < LOG_TENANT_MS) return;
    row.loggedMs = nowMs;
    const { refused, sinceMs } = row;
    row.refused = 0;
    const forSeconds = Math.round((nowMs - sinceMs) / 1_000);
    const fields = { event: "tenant_held_back", namespace, reason, refused, forSeconds };
    this.#logger.warn(fields, "a tenant asks for more than it may have, again and again");
  }
}
