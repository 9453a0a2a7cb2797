/** The entry for Node: `index.ts` with certificates and proxies. Its types are those of `index.ts`. */
import type { Env } from "../../env/index.js";
import type { StoreSource, Stores } from "../source.js";
import { addressOf } from "./connection-address.js";
import { openTransport } from "./connection-node.js";
import { type HttpOptions, httpSource } from "./index.js";

export function http(options: HttpOptions): StoreSource<Stores> {
  return httpSource(options, openTransport);
}

/** Servers, for what else is read from them, such as their metrics. */
export interface Reached {
  /** Of each, without a trailing slash. */
  readonly baseUrls: readonly string[];
  readonly apiKey: string | undefined;
  readonly fetch: typeof globalThis.fetch;
  close(): void;
}

/** @throws INVALID_OPTION, STORE_MISCONFIGURED */
export async function reachServers(url: string, env: Env): Promise<Reached> {
  const { baseUrls, apiKey, files } = addressOf(url);
  const isTls = baseUrls[0]?.startsWith("https:") ?? false;
  const transport = await openTransport({ isTls, files, tls: {} }, env);
  const { fetch } = transport ?? globalThis;
  return { baseUrls, apiKey, fetch, close: () => transport?.close() };
}
