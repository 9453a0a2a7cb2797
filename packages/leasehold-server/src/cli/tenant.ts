/** The tenant of a command on a server: that of its API key, unless the command names one. */
import type { Command } from "commander";
import { controlWhereOf, isServer } from "./options.js";
import { openLeases } from "./stores.js";

/** These leave the tenant to the client that they connect: it takes the server's, and waits for the server. */
const CONNECTING: ReadonlySet<string> = new Set([
  "run",
  "elect",
  "acquire",
  "worker",
  "enqueue",
  "tasks",
]);

/**
 * Sets --namespace to the tenant of the server's API key if it has its default. A tenant that the command
 * names stays: the server refuses a wrong one.
 */
export async function takeServersTenant(command: Command): Promise<void> {
  if (command.getOptionValueSource("namespace") !== "default") return;
  if (CONNECTING.has(command.name()) || !isServer(command)) return;
  const stores = await openLeases(controlWhereOf(command).store);
  await stores.close();
  if (stores.namespace !== undefined) {
    command.setOptionValueWithSource("namespace", stores.namespace, "server");
  }
}
