/** Opens the store to test: behind a URL, or from the user's module. */

import { InvalidOptionError, type LeaseStore } from "leasehold";
import { systemEnv } from "leasehold/internal";
import { ENGINES, openBy } from "leasehold/internal/open";
import type { OpenedLeaseStore } from "leasehold/testing";
import { patienceMs } from "../connecting.js";
import { UsageError } from "../failures.js";
import { loadModule } from "../modules.js";
import { shownUrl } from "../shown-url.js";

/**
 * Opens the store behind a URL.
 * @throws UsageError if it supports only one namespace, as a server does
 */
export async function openUrl(url: string): Promise<OpenedLeaseStore> {
  const stores = await openBy(ENGINES, url, systemEnv, patienceMs(url));
  try {
    await stores.leases.get([{ namespace: "suite-probe", resource: "probe" }]);
  } catch (error) {
    await stores.close();
    if (!(error instanceof InvalidOptionError) || error.path !== "namespace") throw error;
    throw new UsageError(
      `the suite needs its own namespaces, and the store behind ${shownUrl(url)} supports only one: test the engine itself`,
      { cause: error },
    );
  }
  return { store: stores.leases, close: () => stores.close() };
}

const WANTED =
  "a function `open` that returns a LeaseStore or the result of the suite's `open`, or a LeaseStore `store`; either may be the default export";
const MEMBERS: Readonly<Record<keyof LeaseStore, "function" | "object">> = {
  capabilities: "object",
  acquire: "function",
  renew: "function",
  release: "function",
  revoke: "function",
  get: "function",
  list: "function",
  watch: "function",
  collect: "function",
  close: "function",
};

/**
 * Opens the store that a module exports.
 * @throws UsageError that explains the problem with the file
 */
export function openModule(file: string): Promise<OpenedLeaseStore> {
  return loadModule(file, async (exports, path) => {
    const found = exports.open ?? exports.store ?? exports.default;
    const opened: unknown = typeof found === "function" ? await (found as () => unknown)() : found;
    if (!isObject(opened)) throw new UsageError(`${path} must export ${WANTED}`);
    const store = isObject(opened.store) ? opened.store : opened;
    const missing = Object.entries(MEMBERS).filter(([name, type]) => typeof store[name] !== type);
    if (missing.length > 0) {
      const names = missing.map(([name]) => name).join(", ");
      throw new UsageError(
        `the store of ${path} has no ${names}: the module must export ${WANTED}`,
      );
    }
    const checked = store as unknown as LeaseStore;
    return { close: () => checked.close(), ...(store !== opened && opened), store: checked };
  });
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
