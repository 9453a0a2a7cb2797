/** Options that several commands share, and their parsers. */
import { type Command, InvalidArgumentError, Option } from "commander";
import { parseDuration } from "leasehold/internal";

const DEFAULT_STORE = "pglite:.leasehold";

/** Where leases and tasks are kept. */
export interface Where {
  readonly store: string;
  /** Where tasks and the state of the generator are; undefined means in `store`. */
  readonly control: string | undefined;
}

/** Adds --store. */
export function withStore(command: Command, what = "store"): Command {
  return command.addOption(
    new Option(
      "--store <url>",
      `${what}: pglite:DIR, postgres://..., memory:NAME, or a server's http://...`,
    )
      .env("LEASEHOLD_STORE")
      .default(DEFAULT_STORE),
  );
}

/** Adds --store and --control. */
export function withStores(command: Command): Command {
  return withStore(command, "store of the leases").addOption(
    new Option(
      "--control <url>",
      "store of the tasks and the state of the generator (default: --store)",
    ).env("LEASEHOLD_CONTROL"),
  );
}

/** --namespace, which a server ignores: it uses the tenant of the API key. */
export function namespaceOption(): Option {
  return new Option("--namespace <name>", "tenant; a server uses the tenant of the API key")
    .env("LEASEHOLD_NAMESPACE")
    .default("default");
}

/** --store without --control applies to tasks too, and overrides LEASEHOLD_CONTROL. */
export function whereOf(command: Command): Where {
  const { store, control } = command.opts<{ store: string; control?: string }>();
  const typed = (name: string) => command.getOptionValueSource(name) === "cli";
  const overruled = typed("store") && !typed("control");
  const apart = overruled || control === undefined ? undefined : withKey(control);
  return { store: withKey(store), control: apart };
}

/** Adds LEASEHOLD_KEY to a server's URL, unless the URL has a key: `http://KEY@host`. */
function withKey(text: string): string {
  const key = process.env["LEASEHOLD_KEY"];
  if (!key || !/^https?:/i.test(text) || !URL.canParse(text)) return text;
  const url = new URL(text);
  if (url.username === "") url.username = key;
  return url.href;
}

/** The URL of the store of the tasks. */
export function tasksUrl(command: Command): string {
  const { store, control } = whereOf(command);
  return control ?? store;
}

/** Parses a duration to milliseconds. */
export function duration(text: string): number {
  const ms = parseDuration(text);
  if (ms === null) {
    throw new InvalidArgumentError("A duration is a number and a unit: 500ms, 30s, 5m, 2h, 90d.");
  }
  return ms;
}

/** Returns a parser of whole numbers in the range. */
export function integer(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^-?\d+$/.test(text) || value < min || value > max) {
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
    }
    return value;
  };
}

/** Returns a parser of numbers in the range. */
export function decimal(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d*\.?\d+$/.test(text) || value < min || value > max) {
      throw new InvalidArgumentError(`It must be a number from ${min} to ${max}.`);
    }
    return value;
  };
}

/** Parses a time in ISO 8601. */
export function moment(text: string): Date {
  const date = new Date(text);
  if (!/^\d{4}-\d\d-\d\d/.test(text) || Number.isNaN(date.getTime())) {
    throw new InvalidArgumentError("It must be a time in ISO 8601, such as 2030-01-31T12:00:00Z.");
  }
  return date;
}

/** Parses a repeatable option `key=value`, with the value as JSON or text. */
export function keyValue(
  text: string,
  before: Readonly<Record<string, unknown>> = {},
): Record<string, unknown> {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("It must be key=value.");
  return { ...before, [text.slice(0, at)]: jsonOrText(text.slice(at + 1)) };
}

function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
