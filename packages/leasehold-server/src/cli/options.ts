/** Options that several commands share, and their parsers. */
import { type Command, InvalidArgumentError, Option } from "commander";
import type { Rate } from "leasehold";
import { blockedPort, isTime, MOST_STARTS, parseDuration, timeExpected } from "leasehold/internal";
import { checkDirectories } from "./directories.js";
import { EXIT } from "./exit-codes.js";
import { UsageError } from "./failures.js";
import { jsonOrText } from "./json-input.js";
import { driversWarnTo, type Notify, notifier } from "./notices.js";

/** The store of `serve` and `demo` unless another is named: in their working directory. */
export const EMBEDDED = "pglite:.leasehold";

/** From now, it ends in a year of four digits, as all our times do. Timers and the stores take it, too. */
const LONGEST_DAYS = 1_000_000;
const LONGEST_MS = LONGEST_DAYS * 24 * 60 * 60 * 1_000;

const ENGINES =
  "postgres://..., pglite:DIR, redis://..., sqlite:FILE (experimental), etcd://..., zookeeper://..., consul://..., kubernetes:NAMESPACE, a server's http://...";

/** Where leases and tasks are kept, and whose they are. */
export interface Where {
  readonly store: string;
  /** Where tasks and the state of the generator are; undefined means in `store`. */
  readonly control: string | undefined;
  /** The tenant; undefined means that of a server's API key, or `default`. */
  readonly namespace: string | undefined;
  /** Of commands that create no database: openers refuse one without tables. */
  readonly isReading?: boolean;
  /** What the command reports while it opens them. */
  readonly notify: Notify;
}

interface Reporting {
  /** Default: on stderr, with --json as JSON. */
  readonly notify?: Notify;
}

interface Using extends Reporting {
  /** Whether the command may create a database; it then says so. */
  readonly creates?: boolean;
}

/** What --store says of memory: to users of commands for {@link ownWhereOf}, and for {@link whereOf}. */
const IN_MEMORY = {
  own: ", or memory:NAME (one process alone; each memory: without a name is another store)",
  shared: ", but not memory:, which no other process sees",
} as const;

/** Adds --store and --namespace. */
export function withStore(command: Command, use: keyof typeof IN_MEMORY = "shared"): Command {
  return command.addOption(storeOption("store", use)).addOption(namespaceOption());
}

/** In the help of an option that is not checked before the store is open. */
export const TTL_DEFAULT = "(default: 30s, or the nearest that the store allows)";

/** Adds --store, --control and --namespace. */
export function withStores(command: Command): Command {
  return withDatabase(command).addOption(namespaceOption());
}

/** Adds --store and --control, for commands that work on all tenants. */
export function withDatabase(command: Command, defaultStore?: string): Command {
  return command
    .addOption(
      storeOption(
        "store of the leases",
        defaultStore === undefined ? "shared" : "own",
        defaultStore,
      ),
    )
    .addOption(
      new Option(
        "--control <url>",
        "store of the tasks and the state of the generator (default: --store)",
      ).env("LEASEHOLD_CONTROL"),
    );
}

/** With a default in the working directory, two directories would be two stores that both grant. */
function storeOption(what: string, use: keyof typeof IN_MEMORY, defaultStore?: string): Option {
  return new Option("--store <url>", `${what}: ${ENGINES}${IN_MEMORY[use]}`)
    .env("LEASEHOLD_STORE")
    .default(defaultStore);
}

function namespaceOption(): Option {
  return new Option(
    "--namespace <name>",
    "tenant; a server knows it by the API key, and refuses another",
  )
    .env("LEASEHOLD_NAMESPACE")
    .default("default");
}

/**
 * The stores and the tenant of a command that shares them with other processes.
 * @throws UsageError if no store is named, if it is in the memory of this process, or if its directory has no database
 */
export function whereOf(command: Command, { creates = false, ...reporting }: Using = {}): Where {
  const where = ownWhereOf(command, reporting);
  checkShared(where.store);
  if (where.control !== undefined) checkShared(where.control);
  return checked(where, creates);
}

/** @throws UsageError */
function checked(where: Where, creates: boolean): Where {
  checkDirectories(where, creates ? where.notify : undefined);
  return creates ? where : { ...where, isReading: true };
}

/**
 * As {@link whereOf}, for commands that make sense alone: they may keep their stores in memory.
 * @throws UsageError if no store is named
 */
export function ownWhereOf(
  command: Command,
  { notify = ownNotify(command) }: Reporting = {},
): Where {
  const { store, control } = urlsOf(command);
  if (store === undefined) throw new UsageError(NO_STORE);
  driversWarnTo(notify);
  return { store, control, namespace: namespaceOf(command), notify };
}

/**
 * The store of tasks, keys, limits and the audit log: --control, or else --store.
 * @throws UsageError as {@link whereOf}
 */
export function controlWhereOf(
  command: Command,
  { creates = false, notify = ownNotify(command) }: Using = {},
): Where {
  const { store, control = store } = urlsOf(command);
  if (control === undefined) throw new UsageError(NO_STORE);
  checkShared(control);
  driversWarnTo(notify);
  const namespace = namespaceOf(command);
  return checked({ store: control, control: undefined, namespace, notify }, creates);
}

function ownNotify(command: Command): Notify {
  return notifier(command.opts<{ json?: boolean }>().json);
}

/**
 * Undefined unless it was typed or is in the environment.
 * @throws UsageError if it is empty: no lease, task or key is in such a tenant
 */
function namespaceOf(command: Command): string | undefined {
  if (command.getOptionValueSource("namespace") === "default") return undefined;
  const { namespace } = command.opts<{ namespace?: string }>();
  if (namespace?.trim() !== "") return namespace;
  throw new UsageError(
    `${sourceOf(command, "namespace")} is empty: name a tenant, or leave it out`,
  );
}

/**
 * Of lists that have --all. A namespace of the environment is a default, which --all overrides.
 * @throws UsageError if a tenant is named too
 */
export function refuseNamespaceWithAll(command: Command): void {
  const isAll = command.getOptionValue("all") === true;
  if (!isAll || command.getOptionValueSource("namespace") !== "cli") return;
  throw new UsageError("which tenants? pass --namespace for one, or --all, not both");
}

/** What the user has typed or set. */
function sourceOf(command: Command, name: string): string {
  const isTyped = command.getOptionValueSource(name) === "cli";
  return isTyped ? `--${name}` : `LEASEHOLD_${name.toUpperCase()}`;
}

/**
 * The tenant of a command: as given, or of the API key of the server that it has opened, or `default`.
 * @throws UsageError if the server's is another one: each of its calls would be refused
 */
export function tenantOf(command: Command, served: { readonly namespace?: string }): string {
  const given = namespaceOf(command);
  if (given !== undefined && served.namespace !== undefined && given !== served.namespace) {
    const own = `must be "${served.namespace}", the namespace of this client's key on the server`;
    throw new UsageError(`namespace ${own}, not "${given}": leave it out`);
  }
  return given ?? served.namespace ?? "default";
}

/** --store without --control applies to tasks too, and overrides LEASEHOLD_CONTROL. */
function urlsOf(command: Command): { store: string | undefined; control: string | undefined } {
  const { store, control } = command.opts<{ store?: string; control?: string }>();
  for (const [name, value] of Object.entries({ store, control })) {
    if (value?.trim() !== "") continue;
    const remedy = name === "store" ? NO_STORE : NO_CONTROL;
    throw new UsageError(`${sourceOf(command, name)} is empty: ${remedy}`);
  }
  const typed = (name: string) => command.getOptionValueSource(name) === "cli";
  const overruled = typed("store") && !typed("control");
  return {
    store: store === undefined ? undefined : withKey(store),
    control: overruled || control === undefined ? undefined : withKey(control),
  };
}

const NO_STORE =
  'no store: pass --store URL or set LEASEHOLD_STORE, such as postgres://localhost/app. To try it on this machine, run "leasehold serve" and pass --store http://127.0.0.1:4040';

const NO_CONTROL =
  "name a store, or leave it out (unset the variable): then --store keeps tasks, keys, limits and the audit log too";

function checkShared(url: string): void {
  if (!/^(memory:|pglite:(\?|$))/i.test(url)) return;
  throw new UsageError(
    `no other process sees the leases and tasks in ${url}, and they would end with this command: run "leasehold serve --store ${url}" and pass --store http://127.0.0.1:4040`,
  );
}

/**
 * Adds LEASEHOLD_KEY to a server's URL, unless the URL has a key: `http://KEY@host`.
 * @throws UsageError if it is empty: a script that could not read its key would call as a caller without one
 */
function withKey(text: string): string {
  const key = process.env["LEASEHOLD_KEY"];
  // There may be several hosts, which no URL has.
  if (key === undefined || !/^https?:\/\/(?![^/?#]+@)/i.test(text)) return text;
  if (key.trim() === "") {
    throw new UsageError("LEASEHOLD_KEY is empty: set it to an API key of the server, or unset it");
  }
  return text.replace("//", () => `//${encodeURIComponent(key)}@`);
}

/** -E of the commands that wait for a resource. */
export function conflictOption(): Option {
  return new Option(
    "-E, --conflict-exit-code <n>",
    "exit code if another holder kept the resource for as long as --wait",
  )
    .argParser(integer(0, 255))
    .default(EXIT.leaseUnavailable);
}

/** Parses text that must say something: a blank reason, or a filter that would match all. */
export function notBlank(text: string): string {
  if (text.trim() === "") throw new InvalidArgumentError("It must not be blank.");
  return text;
}

/** Returns a parser of an option that may be given several times. */
export function repeatable(parse: (text: string) => string = (text) => text) {
  return (text: string, before: readonly string[]): readonly string[] => [...before, parse(text)];
}

/** As {@link duration}, greater than 0. */
export function positiveDuration(text: string): number {
  const ms = duration(text);
  if (ms === 0) throw new InvalidArgumentError("It must be greater than 0.");
  return ms;
}

/** Parses a duration to whole milliseconds. */
export function duration(text: string): number {
  const ms = parseDuration(text);
  if (ms === null) {
    throw new InvalidArgumentError("A duration is a number and a unit: 500ms, 30s, 5m, 2h, 90d.");
  }
  if (ms > 0 && ms < 1) throw new InvalidArgumentError("It must be 0 or at least 1ms.");
  if (ms > LONGEST_MS) throw new InvalidArgumentError(`It must be at most ${LONGEST_DAYS}d.`);
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

/** Parses the port of a server, to which clients connect by fetch; 0 chooses a free one. */
export function listeningPort(text: string): number {
  const port = integer(0, 65_535)(text);
  const problem = blockedPort(port);
  if (problem !== undefined)
    throw new InvalidArgumentError(`Clients would not connect: ${problem}.`);
  return port;
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

const TIME =
  /^\d{4}-\d\d-(\d\d)T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/;

const INSTANT =
  "an ISO 8601 time with seconds and a time zone, such as 2030-01-31T12:00:00Z or 2030-01-31T12:00:00+01:00";

/**
 * Parses a time with a time zone: without one, it would depend on the machine.
 * Accepts the same times as the HTTP API, whose schemas would delay the start of every command.
 */
export function moment(text: string): Date {
  const date = new Date(text);
  const [, day = ""] = TIME.exec(text) ?? [];
  // JavaScript takes the 31st of February for a day in March.
  const isDay = day !== "" && new Date(text.slice(0, 10)).getUTCDate() === Number(day);
  if (!isDay || !isTime(date.getTime())) {
    throw new InvalidArgumentError(`It must be ${timeExpected(text, INSTANT)}.`);
  }
  return date;
}

/**
 * Parses a repeatable option `key=value`, with the value as JSON or text.
 * @throws UsageError, InvalidArgumentError
 */
export function keyValue(
  text: string,
  before: Readonly<Record<string, unknown>> = {},
): Record<string, unknown> {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("It must be key=value.");
  const key = text.slice(0, at);
  if (Object.hasOwn(before, key)) throw new InvalidArgumentError(`${key} is given more than once.`);
  return { ...before, [key]: jsonOrText(text.slice(at + 1), key) };
}

/** @throws InvalidArgumentError unless it is `n/duration` */
export function rateOf(text: string): Rate {
  const [, count = "", time = ""] = /^(\d+)\/(.+)$/.exec(text) ?? [];
  const perMs = parseDuration(time);
  if (count === "" || perMs === null || perMs < 1) {
    throw new InvalidArgumentError("It must be a number and a duration: 100/1m");
  }
  return { limit: integer(1, MOST_STARTS)(count), perMs: duration(time) };
}
