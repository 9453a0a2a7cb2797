/** Kinds of tasks and their handlers, with the types of data and output kept together. */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { isError, isInstance, type Logger, propertyOf, reasonOf } from "../env/index.js";
import {
  checkArray,
  checkFunction,
  checkKnown,
  checkName,
  checkTime,
  InvalidOptionError,
  kindOf,
  type Lease,
  withoutUndefined,
} from "../lease/index.js";
import { concurrencyOf, KEY_OPTIONS, type KeyOptions } from "./concurrency.js";
import { toJson } from "./json.js";
import { CONTRACT_OPTIONS, type ContractOptions, schemaOf, versionOf } from "./kinds/contract.js";
import type { JsonSchema } from "./kinds/json-schema.js";
import { type LimitOptions, limitOf } from "./limit-client.js";
import type { ClaimedTask, Concurrency, Json, TaskLimit } from "./port.js";
import { checkTaskId } from "./record.js";
import { checkDefaults, TASK_DEFAULTS, type TaskDefaults } from "./settings.js";

/** Options of `defineTask`. */
export interface TaskOptions<
  Schema extends StandardSchemaV1 | JsonSchema | undefined,
  Input = Schema extends StandardSchemaV1 ? StandardSchemaV1.InferInput<Schema> : Json,
> extends TaskDefaults,
    KeyOptions<Input>,
    ContractOptions {
  /** Checks the data when it is enqueued and again before it is handled. Of any standard-schema library, or a JSON Schema. Default: any JSON is accepted. */
  schema?: Schema;
  /** Limits how many tasks of the kind run at once, and how many start in a time, in the whole fleet. Workers declare it. Default: no limit. */
  limit?: LimitOptions;
}

/** What a handler is given beside the data. */
export interface HandlerContext {
  /** The task as it was claimed: id, attempt, failures, crashes... */
  readonly task: Omit<ClaimedTask, "leaseId" | "data" | "checkpoint">;
  /**
   * The lease on it. Pass `lease.token` to what you write to; ask `lease.checkAlive()` before. The worker releases it when
   * the handler has ended: here `release()` and the disposal do nothing.
   */
  readonly lease: Lease;
  /** Aborts when the lease is lost or the worker can wait no longer: stop then. */
  readonly signal: AbortSignal;
  /**
   * Kept with the attempt and shown to people; travels with the next heartbeat. At most 64 KiB as
   * JSON: it is sent again with every heartbeat. What the store refuses for good is dropped, with a warning.
   * @throws InvalidOptionError for what JSON cannot say, and for more than that
   */
  readonly progress: (progress: Json) => void;
  /**
   * Records how far the work has come, so that the next attempt can go on from there: it finds the value in
   * `lastCheckpoint`. Resolves when the store has it, under the token of this attempt. It replaces the one before. At most
   * 64 KiB as JSON.
   * @throws LeaseLostError if the lease is lost: nothing was recorded; STORE_UNAVAILABLE: it may have been, and the next
   *   heartbeat sends it again; InvalidOptionError for what JSON cannot say, for more than 64 KiB, and for what the store
   *   refuses for good, which is dropped with a warning
   */
  readonly checkpoint: (checkpoint: Json) => Promise<void>;
  /** The last checkpoint of an earlier attempt, as it was when the task was claimed; null if there was none. */
  readonly lastCheckpoint: Json;
  readonly log: Logger;
}

/** Does a task. What it returns is the output of the task, which must be JSON; what it throws fails the attempt. */
export type Handler<Data, Output> = (
  data: Data,
  context: HandlerContext,
) => Output | PromiseLike<Output>;

/** A handler and the kind of tasks that it is for, as `tasks.work` takes them. */
export interface TaskHandler {
  readonly kind: string;
  /** The version of its kind: it gets no tasks of a larger one. Absent: 1. */
  readonly version?: number;
  /** Checks the data and does the work. */
  readonly run: (data: Json, context: HandlerContext) => Promise<Json>;
  /** Of all tasks of the kind; a worker declares it when it starts. */
  readonly limit?: TaskLimit | undefined;
}

/** A kind of task. `Input` is what is enqueued, `Data` what the handler gets, `Output` what it returns. */
export interface TaskDefinition<Input = Json, Data = Input, Output = unknown> {
  readonly kind: string;
  readonly defaults: TaskDefaults;
  /** The version of the data. Absent: 1. */
  readonly version?: number;
  /** @throws InvalidOptionError naming the field of the data */
  check(data: Input): Promise<Json>;
  /** By the `concurrencyKey` of the kind; undefined if it has none, or the task is not limited. */
  readonly concurrency?: ((data: Input) => Concurrency | undefined) | undefined;
  handle(handler: Handler<Data, Output>): TaskHandler;
}

/**
 * Thrown by a handler when trying again is of no use: the task is dead at once.
 * @example
 * ```ts
 * import { defineTask, FinalTaskError } from "leasehold";
 *
 * const mail = defineTask("mail");
 * export const handler = mail.handle(() => {
 *   throw new FinalTaskError("The address does not exist.");
 * });
 * ```
 */
export class FinalTaskError extends Error {
  override readonly name = "FinalTaskError";
}

/**
 * Defines a kind of task, for the programs that enqueue it and those that work on it.
 * @param kind the name of the kind, the same in all programs
 * @param options see each; they apply to all tasks of the kind that are enqueued without their own
 * @throws INVALID_OPTION
 * @example
 * ```ts
 * import { defineTask } from "leasehold";
 * import { z } from "zod";
 *
 * const schema = z.object({ width: z.number() });
 * const resize = defineTask("image.resize", { schema, maxAttempts: 3 });
 * console.log(await resize.check({ width: 640 }));
 * export const handler = resize.handle(({ width }) => ({ file: `${width}.png` }));
 * ```
 */
export function defineTask<Schema extends StandardSchemaV1, Output = unknown>(
  kind: string,
  options: TaskOptions<Schema> & { schema: Schema },
): TaskDefinition<
  StandardSchemaV1.InferInput<Schema>,
  StandardSchemaV1.InferOutput<Schema>,
  Output
>;
export function defineTask<Data = Json, Output = unknown>(
  kind: string,
  options?: TaskOptions<JsonSchema | undefined, Data>,
): TaskDefinition<Data, Data, Output>;
export function defineTask(
  kind: string,
  options: TaskOptions<StandardSchemaV1 | JsonSchema | undefined, unknown> = {},
): TaskDefinition<unknown> {
  checkName("kind", kind);
  checkKnown(options, {
    schema: true,
    limit: true,
    ...KEY_OPTIONS,
    ...CONTRACT_OPTIONS,
    ...TASK_DEFAULTS,
  });
  const { schema, limit, concurrencyKey, perKey, order, rate, ...rest } = options;
  const { version: given, upgrade, ...defaults } = rest;
  const checked = schema === undefined ? undefined : schemaOf(schema, kind);
  const version = versionOf(withoutUndefined({ version: given, upgrade }));
  checkDefaults(defaults);
  const concurrency = concurrencyOf({ concurrencyKey, perKey, order, rate });
  const limited = limit === undefined ? undefined : limitOf("limit", limit);
  return {
    kind,
    defaults,
    version,
    ...(concurrency && { concurrency }),
    async check(data) {
      try {
        await checked?.validate(data);
      } catch (error) {
        // A schema fails at data that cannot be read: the path says more than what it throws then.
        if (!(error instanceof InvalidOptionError)) toJson("data", data);
        throw error;
      }
      return toJson("data", data);
    },
    handle(handler) {
      checkFunction("handler", handler);
      const validated = async (data: unknown) => (checked ? checked.validate(data) : data);
      return {
        kind,
        version,
        ...(limited && { limit: limited }),
        async run(data, context) {
          const { version: from } = context.task;
          const given =
            upgrade && from < version
              ? await upgraded(kind, version, () => upgrade(data, from), from).then(validated)
              : await validated(data).catch(asFinal);
          return toJson("output", await handler(given, context));
        },
      };
    },
  };
}

/** @throws an Error that says which upgrade failed: the next attempt may find one that does not */
async function upgraded(
  kind: string,
  version: number,
  upgrade: () => unknown,
  from: number,
): Promise<unknown> {
  const what = `the upgrade of "${kind}" from version ${from} to ${version}`;
  let data: unknown;
  try {
    data = await upgrade();
  } catch (cause) {
    if (isFinal(cause)) throw cause;
    throw new Error(`${what} failed: ${reasonOf(cause)}`, { cause });
  }
  // JSON is never undefined: it has changed the data in place, or forgotten to return it.
  if (data === undefined) {
    throw new FinalTaskError(`${what} returned undefined: upgrade must return the data`);
  }
  return data;
}

/** An error of another copy of the package counts too: a handler has that of its program, and the command line its own. */
export function isFinal(error: unknown): boolean {
  if (isInstance(error, FinalTaskError)) return true;
  return isError(error) && propertyOf(error, "name") === "FinalTaskError";
}

/** @throws InvalidOptionError unless it is what {@link defineTask} returns */
export function checkDefinition(definition: unknown): void {
  const { kind, check, defaults } = (definition ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof kind === "string" && typeof check === "function" && defaults) return;
  const example = typeof definition === "string" ? `defineTask(${JSON.stringify(definition)})` : "";
  throw new InvalidOptionError(
    "definition",
    `must be made by defineTask, got ${kindOf(definition)}${example && `: write ${example}`}`,
  );
}

/** The most ids of one list: as many as a request to a server can name. */
const MOST_LISTED = 200;

/** @throws InvalidOptionError */
export function checkIds(ids: unknown): void {
  if (ids === undefined) return;
  checkArray("ids", ids);
  if (ids.length > MOST_LISTED) {
    throw new InvalidOptionError(
      "ids",
      `must be at most ${MOST_LISTED}: list them in several calls`,
    );
  }
  for (const [at, id] of ids.entries()) checkTaskId(id, `ids.${at}`);
}

/** @throws InvalidOptionError */
export function checkScheduledAt(at: unknown): void {
  if (!(at instanceof Date)) {
    throw new InvalidOptionError(
      "scheduledAt",
      `must be a Date, got ${kindOf(at)}: write new Date(...)`,
    );
  }
  checkTime("scheduledAt", at.getTime());
}

/** Data that does not fit its schema will not fit it next time either. A schema that cannot check it may be corrected. */
function asFinal(error: unknown): never {
  const isOfData = error instanceof InvalidOptionError && error.path !== "schema";
  throw isOfData ? new FinalTaskError(error.message) : error;
}
