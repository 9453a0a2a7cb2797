/**
 * The holder that is reported for a paused resource.
 * @example
 * ```ts
 * import { PAUSED_HOLDER } from "leasehold/port";
 *
 * const outcome = { status: "held", holder: PAUSED_HOLDER };
 * console.log(outcome.holder === PAUSED_HOLDER ? "an operator paused it" : outcome.holder);
 * ```
 */
export const PAUSED_HOLDER = "paused";
