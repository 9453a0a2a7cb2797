/** The grammar of cron expressions: that of crontab(5), and seconds, L, W and #. The cron library computes the times. */
import { InvalidOptionError } from "../../lease/index.js";

/** An expression that the cron library reads without an error. */
export interface CronExpression {
  /** Six fields or a nickname. If it names times of day, second, minute and hour are lists of values. */
  readonly text: string;
  /** Whether a day must match both day of month and day of week, instead of one of them. */
  readonly needsBothDays: boolean;
}

interface Field {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  /** How many values there are. */
  readonly size: number;
  /** Those of the values from `min` on. */
  readonly names?: readonly string[];
  /** What the field may be as a whole, and not within a list. */
  readonly whole?: RegExp;
  /** What an element of its list may be beside a value, a range and a step. */
  readonly extra?: RegExp;
  /** These in a message. */
  readonly others?: string;
}

const FIELDS: readonly Field[] = [
  { name: "second", min: 0, max: 59, size: 60 },
  { name: "minute", min: 0, max: 59, size: 60 },
  { name: "hour", min: 0, max: 23, size: 24 },
  {
    name: "day of month",
    min: 1,
    max: 31,
    size: 31,
    whole: /^(\?|LW)$/i,
    extra: /^(L|(0?[1-9]|[12]\d|3[01])W)$/i,
    others: ", L for the last day, or 15W for the weekday nearest to the 15th",
  },
  {
    name: "month",
    min: 1,
    max: 12,
    size: 12,
    names: "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split(" "),
  },
  {
    name: "day of week",
    min: 0,
    max: 7,
    size: 7,
    names: "SUN MON TUE WED THU FRI SAT".split(" "),
    whole: /^\?$/,
    extra: /^(0?[0-7]|SUN|MON|TUE|WED|THU|FRI|SAT)(L|#[1-5])$/i,
    others:
      ", or FRI#2 or FRIL for the second or last Friday of the month, whose last day is the day of month L",
  },
];
const HOUR = 2;
const DAY_OF_MONTH = 3;
const DAY_OF_WEEK = 5;
const ELEMENT = /^(\*|[^-/]*)(?:-([^-/]+))?(?:\/(.*))?$/;
/** An hour field of an expression that follows the elapsed hours. Every other one names times of day. */
const HOURLY = /^\*(\/\d+)?$/;
const NICKNAME = /^@(yearly|annually|monthly|weekly|daily|midnight|hourly)$/i;
const LONGEST = 256;

/** What other schedulers have, and the remedy. */
const REMEDIES: readonly (readonly [RegExp, string])[] = [
  [/^(@every\b|rate\()/i, "is an interval: set everyMs instead of cron"],
  [/^@reboot$/i, "has no time: enqueue the task where your program starts"],
  [/^@/, "must be @hourly, @daily, @weekly, @monthly, @yearly, or have five fields"],
  [/^(CRON_)?TZ=/i, "must not have a time zone: remove it from cron, and set timeZone"],
  [/^cron\(/i, "must have the five fields alone, without cron(...)"],
  [/(^|\s)#/, "must not have a comment: remove what begins with #"],
];

/** @throws INVALID_OPTION with the field, its text and the remedy */
export function readCron(written: string): CronExpression {
  if (written.length > LONGEST) {
    const problem = `must have at most ${LONGEST} characters, not ${written.length}`;
    throw new InvalidOptionError("cron", problem);
  }
  const refuse = (problem: string): never => {
    throw new InvalidOptionError("cron", `${JSON.stringify(written)}${problem}`);
  };
  const [character] = /[^\t\n\r -~]/u.exec(written) ?? [];
  if (character !== undefined) refuse(` must be plain ASCII, without ${codeOf(character)}`);
  const text = written.trim();
  if (NICKNAME.test(text)) return { text, needsBothDays: false };
  for (const [pattern, remedy] of REMEDIES) if (pattern.test(text)) refuse(` ${remedy}`);
  const parts = text === "" ? [] : text.split(/\s+/);
  if (parts.length !== 5 && parts.length !== 6) {
    const fields = "five fields (minute, hour, day of month, month, day of week)";
    refuse(` must have ${fields}, or six with the second first, not ${parts.length}`);
  }
  const aside = parts.length === 6 ? " (of six fields, the first is the second)" : "";
  const fields = parts.length === 6 ? parts : ["0", ...parts];
  const [dayOfMonth = "", dayOfWeek = ""] = [fields[DAY_OF_MONTH], fields[DAY_OF_WEEK]];
  fields[DAY_OF_WEEK] = dayOfWeek.replace(/^\+/, "");
  for (const [index, field] of FIELDS.entries()) {
    const list = fields[index] ?? "";
    if (field.whole?.test(list)) continue;
    for (const element of list.split(",")) {
      const problem = problemOf(field, element);
      if (problem !== null) refuse(`: ${field.name} "${element}" ${problem}${aside}`);
    }
  }
  // The cron library drops an L from a list, and takes `*` alone for no condition on the day of month.
  if (dayOfMonth.includes(",")) {
    fields[DAY_OF_MONTH] = dayOfMonth.replace(/(?<=^|,)\*(?=,|$)/g, "*/1");
  }
  if (!HOURLY.test(fields[HOUR] ?? "")) {
    for (const [index, field] of FIELDS.slice(0, HOUR + 1).entries()) {
      fields[index] = valuesOf(field, fields[index] ?? "").join();
    }
  }
  return {
    text: fields.join(" "),
    needsBothDays: /^[*?]/.test(dayOfMonth) || /^[*?+]/.test(dayOfWeek),
  };
}

/** The numbers that a list of a field without names has. */
function valuesOf({ min, max }: Field, list: string): number[] {
  const values = new Set<number>();
  for (const element of list.split(",")) {
    const [, first = "", last = first, step = "1"] = ELEMENT.exec(element) ?? [];
    const [from, to] = first === "*" ? [min, max] : [Number(first), Number(last)];
    for (let value = from; value <= to; value += Number(step)) values.add(value);
  }
  return [...values];
}

function codeOf(character: string): string {
  return `U+${character.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** @returns what is wrong with an element of a field's list, and the remedy; null: nothing */
function problemOf(field: Field, element: string): string | null {
  if (element === "") return "is empty: write a value, or remove the comma";
  if (field.extra?.test(element)) return null;
  if (/^H|~/i.test(element))
    return "is random: write values, or a step such as */15, and set jitterMs";
  const [, first = "", last, step] = ELEMENT.exec(element) ?? [];
  if (step !== undefined && !isBetween(step, 1, field.size)) {
    return `must have a step from 1 to ${field.size}: set everyMs instead of cron for other intervals`;
  }
  if (first === "*" && last === undefined) return null;
  const from = valueOf(field, first);
  if (step !== undefined && last === undefined && (from !== null || first === "")) {
    const end = /^\d/.test(first) ? field.max : nameOf(field, first, field.max);
    return `has a step without a range: write ${first === "" ? "*" : `${first}-${end}`}/${step}`;
  }
  // Sunday ends a range as 7, even one that it begins as 0.
  const endsWithSunday = /^SUN$/i.test(last ?? "") && field.names?.[0] === "SUN";
  if (endsWithSunday && from === 0) return `is one day: write ${first}`;
  const to = endsWithSunday ? field.max : valueOf(field, last ?? first);
  if (from === null || to === null) {
    const names = field.names ? ` or ${field.names[0]} to ${field.names.at(-1)}` : "";
    return `must be from ${field.min} to ${field.max}${names}${field.others ?? ""}`;
  }
  if (from <= to) return null;
  const values: string[] = [];
  const length = (to - from + field.size) % field.size;
  for (let ahead = 0; ahead <= length; ahead += Number(step ?? 1)) {
    values.push(nameOf(field, first, from + ahead));
  }
  return `runs backward: write ${values.join()}`;
}

function isBetween(text: string, min: number, max: number): boolean {
  return /^\d{1,2}$/.test(text) && Number(text) >= min && Number(text) <= max;
}

function valueOf({ min, max, names = [] }: Field, text: string): number | null {
  if (isBetween(text, min, max)) return Number(text);
  const index = names.indexOf(text.toUpperCase());
  return index === -1 ? null : min + index;
}

/** A value as a name or a number, whichever `like` is. */
function nameOf({ min, size, names = [] }: Field, like: string, value: number): string {
  const index = (value - min) % size;
  return (/^\d/.test(like) ? undefined : names[index]) ?? String(min + index);
}
