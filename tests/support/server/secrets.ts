/** Whether secrets of a store's URL are shown: by the command line, in logs, and to other users of the machine. */
import { inspect } from "node:util";
import { expect } from "vitest";
import type { Logger } from "../../../packages/leasehold/src/env/index.js";
import { checkBuild, leasehold } from "../processes/cli.js";

/**
 * Reads `leasehold doctor`, and what other users see of `leasehold run` and of all that it has started: the arguments. The
 * commands get the URL from the environment.
 */
export async function expectNoSecrets(url: string, secrets: readonly string[]): Promise<void> {
  checkBuild();
  const env = { LEASEHOLD_STORE: url };
  const doctor = await leasehold(["doctor", "--for", "100ms", "--samples", "5"], { env });
  const list = "ps -o args= -p $PPID; ps -o args= --ppid $PPID";
  const run = await leasehold(["run", "secrets", "--ttl", "10s", "--", "sh", "-c", list], { env });
  expect(doctor).toMatchObject({ code: 0 });
  expect(run).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("run secrets --ttl 10s -- sh"),
  });
  expectWithout([doctor, run].map(({ stdout, stderr }) => stdout + stderr).join("\n"), secrets);
}

export function expectWithout(text: string, secrets: readonly string[]): void {
  for (const secret of secrets) expect(text).not.toContain(secret);
}

/** A logger that keeps all that it is given, with the errors and their causes, as text. */
export function keepingLogger(): { readonly logger: Logger; readonly logged: string[] } {
  const logged: string[] = [];
  const keep = (...said: unknown[]) => void logged.push(inspect(said, { depth: 20 }));
  return { logger: { debug: keep, info: keep, warn: keep, error: keep }, logged };
}
