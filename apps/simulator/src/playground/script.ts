/**
 * The script that determines a run, and its encoding for URLs:
 *
 *   1-pause-42-ttlMs.5000_clockPercents.n30.0.0.0.0-12000.crash.P3_14000.restart.P3
 *   │   │   │  └ settings that differ from the scenario's └ the user's actions and their times
 *   │   │   └ seed
 *   │   └ scenario, whose own plan is not encoded
 *   └ version
 *
 * Only letters, digits and `.` `_` `-`. In numbers `n` means minus and `d` the decimal point.
 */
import {
  ACTION_FIELDS,
  type Action,
  type ActionKind,
  type Field,
  type TimedAction,
} from "./actions.js";
import { SCENARIOS, type ScenarioId, scenarioById, settingsOf } from "./scenarios.js";
import {
  CLOCK_RANGE,
  DEFAULTS,
  fitSettings,
  longestRenewEveryMs,
  RANGES,
  type Settings,
  START_RANGE,
} from "./settings.js";

export interface Script {
  readonly scenario: ScenarioId;
  /** An integer from 0. Runs with different seeds differ in message delays and jitter. */
  readonly seed: number;
  /** The settings at the start. */
  readonly settings: Settings;
  /** The user's actions in the order of time, in addition to the scenario's plan. */
  readonly actions: readonly TimedAction[];
}

/** A script is invalid; the message says why. */
export class ScriptError extends Error {
  override readonly name = "ScriptError";
}

/** The longest run in milliseconds of true time, which bounds its memory. */
export const LONGEST_RUN_MS = 600_000;
/** The largest number of actions, which bounds the URL. */
export const MOST_ACTIONS = 500;

const VERSION = "1";
const LARGEST_SEED = 999_999_999;
const LONGEST_TEXT = 20_000;

/**
 * A new script for a scenario.
 * @param options.seed default 1
 * @param options.settings settings that differ from the scenario's, clamped to their ranges
 */
export function newScript(
  scenario: ScenarioId,
  options: { readonly seed?: number; readonly settings?: Partial<Settings> } = {},
): Script {
  const { seed = 1, settings } = options;
  const all = { ...settingsOf(scenarioById(scenario)), ...settings };
  return { scenario, seed, settings: fitSettings(all), actions: [] };
}

export function encodeScript({ scenario, seed, settings, actions }: Script): string {
  const usual = settingsOf(scenarioById(scenario));
  const changed = (Object.keys(DEFAULTS) as (keyof Settings)[])
    .filter((name) => String(settings[name]) !== String(usual[name]))
    .map((name) => [name, ...[settings[name]].flat().map(encodeValue)].join("."));
  const done = actions.map(({ atMs, action }) =>
    [encodeValue(atMs), action.kind, ...encodeFields(action)].join("."),
  );
  return [VERSION, scenario, seed, changed.join("_"), done.join("_")].join("-");
}

/** @throws ScriptError */
export function decodeScript(text: string): Script {
  if (text.length > LONGEST_TEXT) {
    throw new ScriptError(`The script is longer than ${LONGEST_TEXT} characters.`);
  }
  const [version, scenario, seed = "", settings = "", actions = "", ...rest] = text.split("-");
  if (version !== VERSION) {
    throw new ScriptError(`The script has version "${version}"; only version ${VERSION} is known.`);
  }
  const known = SCENARIOS.find(({ id }) => id === scenario);
  if (!known) {
    const ids = SCENARIOS.map(({ id }) => id).join(", ");
    throw new ScriptError(`The scenario "${scenario}" is not known; there are ${ids}.`);
  }
  if (rest.length > 0) throw new ScriptError("The script has extra text after its actions.");
  const list = actions === "" ? [] : actions.split("_").map(decodeAction);
  if (list.length > MOST_ACTIONS) throw new ScriptError(`More than ${MOST_ACTIONS} actions.`);
  list.forEach(({ atMs }, index) => {
    if (atMs >= (list[index - 1]?.atMs ?? 0)) return;
    throw new ScriptError(`The action at ${atMs} ms is out of order.`);
  });
  return {
    scenario: known.id,
    seed: decodeNumber("seed", seed, { min: 0, max: LARGEST_SEED, whole: true }),
    settings: decodeSettings(settings, settingsOf(known)),
    actions: list,
  };
}

function encodeValue(value: number | boolean | string): string {
  if (typeof value === "boolean") return value ? "1" : "0";
  return typeof value === "number" ? String(value).replace("-", "n").replace(".", "d") : value;
}

function encodeFields(action: Action): string[] {
  const values = action as unknown as Readonly<
    Record<string, number | boolean | string | undefined>
  >;
  return ACTION_FIELDS[action.kind].flatMap(({ name }) => {
    const value = values[name];
    return value === undefined ? [] : [encodeValue(value)];
  });
}

interface Bounds {
  readonly min: number;
  readonly max: number;
  readonly whole?: boolean;
}

function decodeNumber(name: string, text: string, { min, max, whole = false }: Bounds): number {
  if (!/^n?\d{1,12}(d\d{1,6})?$/.test(text)) {
    throw new ScriptError(`${name} must be a number, not "${text}".`);
  }
  const value = Number(text.replace("n", "-").replace("d", "."));
  if (value < min || value > max) {
    throw new ScriptError(`${name} must be from ${min} to ${max}, not ${value}.`);
  }
  if (whole && !Number.isInteger(value)) {
    throw new ScriptError(`${name} must be a whole number, not ${value}.`);
  }
  return value;
}

function decodeFlag(name: string, text: string): boolean {
  if (text !== "0" && text !== "1") throw new ScriptError(`${name} must be 0 or 1, not "${text}".`);
  return text === "1";
}

function decodeSettings(text: string, usual: Settings): Settings {
  const settings: Record<string, unknown> = { ...usual };
  for (const part of text === "" ? [] : text.split("_")) {
    const [name = "", ...values] = part.split(".");
    if (!Object.hasOwn(DEFAULTS, name))
      throw new ScriptError(`The setting "${name}" is not known.`);
    settings[name] = decodeSetting(name as keyof Settings, values);
  }
  const decoded = settings as unknown as Settings;
  const longestMs = longestRenewEveryMs(decoded);
  if (decoded.renewEveryMs > longestMs) {
    throw new ScriptError(
      `renewEveryMs must be at most ${longestMs} with these other settings, not ${decoded.renewEveryMs}.`,
    );
  }
  return decoded;
}

function decodeSetting(name: keyof Settings, values: readonly string[]): unknown {
  const usual = DEFAULTS[name];
  const wanted = Array.isArray(usual) ? usual.length : 1;
  if (values.length !== wanted) {
    throw new ScriptError(`${name} must have ${wanted} values, not ${values.length}.`);
  }
  const [value = ""] = values;
  if (name === "fenced" || name === "queued") return decodeFlag(name, value);
  if (name === "clockPercents" || name === "startsMs") {
    const range = name === "clockPercents" ? CLOCK_RANGE : START_RANGE;
    return values.map((one) => decodeNumber(name, one, range));
  }
  // A TTL is in whole milliseconds.
  return decodeNumber(name, value, { ...RANGES[name], whole: name === "ttlMs" });
}

function decodeAction(text: string): TimedAction {
  const [time = "", kind = "", ...values] = text.split(".");
  const atMs = decodeNumber("the time of an action", time, {
    min: 0,
    max: LONGEST_RUN_MS,
    whole: true,
  });
  if (!Object.hasOwn(ACTION_FIELDS, kind))
    throw new ScriptError(`The action "${kind}" is not known.`);
  const fields = ACTION_FIELDS[kind as ActionKind];
  if (values.length > fields.length) {
    throw new ScriptError(
      `The action "${kind}" has too many values: ${values.length - fields.length} extra.`,
    );
  }
  const decoded: Record<string, unknown> = { kind };
  for (const [index, field] of fields.entries()) {
    const value = values[index];
    if (value !== undefined) decoded[field.name] = decodeField(kind, field, value);
    else if (!field.optional) throw new ScriptError(`The action "${kind}" has no ${field.name}.`);
  }
  const action = decoded as unknown as Action;
  if (action.kind === "set")
    decodeNumber(action.setting, encodeValue(action.value), RANGES[action.setting]);
  return { atMs, action };
}

function decodeField(kind: string, field: Field, text: string): unknown {
  const name = `${field.name} of "${kind}"`;
  if (field.type === "number") return decodeNumber(name, text, field);
  if (field.type === "flag") return decodeFlag(name, text);
  if (field.of.includes(text)) return text;
  throw new ScriptError(`${name} must be one of ${field.of.join(", ")}, not "${text}".`);
}
