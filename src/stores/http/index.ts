import type { Env } from "../../env/index.js";
import { InvalidOptionError } from "../../lease/index.js";
import type * as wire from "../../protocol/index.js";
import type { StoreSource, Stores } from "../source.js";
import { type Connection, HttpClient } from "./client.js";
import { HttpGeneratorState } from "./generator.js";
import { HttpLeaseStore } from "./store.js";
import { HttpTaskStore } from "./tasks.js";

/** Options of {@link http}. */
export interface HttpOptions {
  /** Of a Leasehold server, with the path below which it is served, if any. */
  readonly url: string | URL;
  /** The namespace that the server serves. Default `default`. */
  readonly namespace?: string;
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Default: the global fetch. An app's own `fetch` reaches it without a network. */
  readonly fetch?: typeof globalThis.fetch;
}

/**
 * Leases and tasks behind a Leasehold server, wherever fetch exists. Opening asks the server what
 * its stores promise.
 * @throws InvalidOptionError for a URL that is none
 */
export function http(options: HttpOptions): StoreSource<Stores> {
  const { namespace = "default", headers = {}, fetch = globalThis.fetch } = options;
  const baseUrl = baseOf(options.url);
  return {
    async open(env: Env, timeoutMs?: number): Promise<Stores> {
      const connection: Connection = { baseUrl, namespace, headers, fetch, env };
      const { body } = await new HttpClient(connection).read("/v1/capabilities", timeoutMs);
      const capabilities = body as wire.Capabilities;
      const leases = new HttpLeaseStore(connection, capabilities.leases);
      const tasks = new HttpTaskStore(connection, capabilities.tasks);
      const generator = new HttpGeneratorState(connection);
      return {
        ...{ leases, tasks, generator },
        async close() {
          await Promise.all([leases.close(), tasks.close()]);
          generator.close();
        },
      };
    },
  };
}

function baseOf(url: string | URL): string {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    throw new InvalidOptionError("url", "must be like http://host:port");
  }
  const { protocol, origin, pathname, username, password, search, hash } = parsed;
  if (protocol !== "http:" && protocol !== "https:") {
    throw new InvalidOptionError("url", "must begin with http: or https:");
  }
  if (username || password || search || hash) {
    throw new InvalidOptionError("url", "must have no user, password, query or fragment");
  }
  return origin + pathname.replace(/\/+$/, "");
}
