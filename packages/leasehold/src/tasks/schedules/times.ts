/** The fire times of a declaration. The cron library is loaded when the first one needs it. */
import { InvalidOptionError, kindOf } from "../../lease/index.js";
import { readCron } from "./cron.js";
import type { ScheduleDeclaration } from "./port.js";
import { everyTimes, type FireTimes } from "./rules.js";

type Timing = Pick<ScheduleDeclaration, "cron" | "everyMs" | "timeZone">;

/**
 * Where clocks are put forward, a time of day that is left out becomes the end of the gap; where they are put back, it
 * fires once. An hourly expression fires in the hours that elapse: in none that is left out, and in both of a repeated one.
 * @throws INVALID_OPTION for a cron expression or a time zone that is none
 */
export async function timesOf({ cron, everyMs, timeZone }: Timing): Promise<FireTimes> {
  if (everyMs !== null) return everyTimes(everyMs);
  checkTimeZone(timeZone);
  const { text, needsBothDays } = readCron(cron ?? "");
  const { Cron } = await import("croner");
  const parsed = new Cron(text, {
    timezone: timeZone,
    domAndDow: needsBothDays,
    // A list is a time of day. The library takes `*` and steps for hourly, so times of day come without them.
    fixedTimeRule: "no-wildcard",
    mode: "5-or-6-parts",
    paused: true,
  });
  return {
    next: (afterMs) => parsed.nextRun(new Date(afterMs))?.getTime() ?? null,
    previous: (beforeMs) => parsed.previousRuns(1, new Date(beforeMs))[0]?.getTime() ?? null,
  };
}

/** @throws INVALID_OPTION */
function checkTimeZone(timeZone: unknown): void {
  try {
    if (typeof timeZone === "string") return void new Intl.DateTimeFormat("en", { timeZone });
  } catch {
    // Falls through to the error below.
  }
  const got = typeof timeZone === "string" && timeZone ? `"${timeZone}"` : kindOf(timeZone);
  const problem = `must be an IANA time zone, such as "Europe/Zurich", got ${got}`;
  throw new InvalidOptionError("timeZone", problem);
}

/**
 * `Intl` reads BST as the time of Bangladesh, and IST as that of India. Only declarations are checked for this, because a
 * schedule that is stored already goes on.
 * @throws INVALID_OPTION
 */
export function checkUnambiguous(timeZone: string): void {
  if (timeZone.includes("/") || /^(UTC|GMT)$/i.test(timeZone)) return;
  const problem = `must be UTC, or an IANA time zone with area and city, such as Europe/London, got "${timeZone}"`;
  throw new InvalidOptionError("timeZone", problem);
}
