/** Every statement of the PostgreSQL stores, as a certain user or under certain settings. */
import { type Env, systemEnv } from "../../../packages/leasehold/src/env/index.js";
import { openPostgres } from "../../../packages/leasehold/src/stores/postgres/index.js";
import { CONTROL_CALLS } from "./postgres-control-calls.js";
import { ONCE_CALLS } from "./postgres-once-calls.js";
import { SCHEDULE_CALLS } from "./postgres-schedule-calls.js";
import { STORE_CALLS } from "./postgres-store-calls.js";

/** The calls add the same key twice. */
const MADE_UP = /unique constraint "api_key_pkey"/;

/** @returns what the server reported. The calls are made up: that the stores refuse some of them does not matter */
export async function failuresOfAllCalls(source: { url: string }): Promise<string[]> {
  let skippedMs = 0;
  const { clock } = systemEnv;
  const monotonic = () => clock.monotonic() + skippedMs;
  const env: Env = { ...systemEnv, clock: { ...clock, monotonic } };
  const opened = await openPostgres(source, env);
  const failures: string[] = [];
  const skip = (ms: number) => {
    skippedMs += ms;
  };
  for (const send of [...STORE_CALLS, ...ONCE_CALLS, ...SCHEDULE_CALLS, ...CONTROL_CALLS]) {
    const result: unknown = await send(opened, skip).catch((error: unknown) => error);
    for (const error of [result].flat().map(errorOf)) {
      if (error?.message.includes("PostgreSQL") && !MADE_UP.test(error.message)) {
        failures.push(error.message);
      }
    }
  }
  await opened.close();
  return failures;
}

function errorOf(outcome: unknown): Error | undefined {
  if (outcome instanceof Error) return outcome;
  const { error } = (outcome ?? {}) as { error?: unknown };
  return error instanceof Error ? error : undefined;
}
