import { retryingOperator } from "../../control/retrying.js";
import { InvalidOptionError, Retrying, retryingLeases } from "../../core/index.js";
import type { Env } from "../../env/index.js";
import { retryingGenerator, retryingTasks } from "../../tasks/retrying.js";
import type * as wire from "../../wire/index.js";
import type { StoreSource, Stores } from "../source.js";
import { type Connection, HttpClient, queryOf } from "./connection.js";
import { HttpOperator } from "./control.js";
import { HttpGeneratorState } from "./control-generator.js";
import { HttpLeaseStore } from "./store.js";
import { HttpTaskStore } from "./tasks.js";

/** Options of {@link http}. */
export interface HttpOptions {
  /** Of a Leasehold server, with the path below which it is served, if any; `http://KEY@host` has a key. */
  readonly url: string | URL;
  /**
   * An API key, where the server asks for one: `lh_...`. It is sent to this server alone, and stands in
   * no error and no log. Default: that of the URL, or none.
   */
  readonly apiKey?: string;
  /**
   * What this program calls the namespace, which the server or the key decides. Default `default`, as
   * everywhere: leave it out.
   */
  readonly namespace?: string;
  /** Sent with every request; `authorization` is for servers behind one that asks for its own. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Default: the global fetch. An app's own `fetch` reaches it without a network. */
  readonly fetch?: typeof globalThis.fetch;
}

/**
 * Leases and tasks behind a Leasehold server, wherever fetch exists. Opening asks the server what
 * its stores promise.
 * @throws InvalidOptionError for a URL that is none, or a text that cannot be a key
 */
export function http(options: HttpOptions): StoreSource<Stores> {
  const { namespace = "default", fetch = globalThis.fetch } = options;
  const { baseUrl, keyInUrl } = partsOf(options.url);
  const headers = withKey(options.headers ?? {}, options.apiKey ?? keyInUrl);
  return {
    async open(env: Env, timeoutMs?: number): Promise<Stores> {
      const connection: Connection = { baseUrl, namespace, headers, fetch, env };
      const asking = new HttpClient(connection);
      const { body } = await new Retrying(env).call(
        (leftMs) => asking.read("/v1/capabilities", leftMs),
        { timeoutMs },
      );
      const capabilities = body as wire.Capabilities;
      const leases = retryingLeases(new HttpLeaseStore(connection, capabilities.leases), env);
      const tasks = retryingTasks(new HttpTaskStore(connection, capabilities.tasks), env);
      const generator = new HttpGeneratorState(connection);
      const operator = new HttpOperator(connection);
      return {
        leases,
        tasks,
        generator: retryingGenerator(generator, env),
        operator: retryingOperator(operator, env),
        waiters: ({ namespace: wanted, resource }) => {
          asking.checkNamespace(wanted);
          return waitersOf(asking, resource);
        },
        async close() {
          await Promise.all([leases.close(), tasks.close()]);
          asking.close();
          generator.close();
          operator.close();
        },
      };
    },
  };
}

/** As the instance that answers has seen them. */
async function waitersOf(client: HttpClient, resource: string) {
  const { body } = await client.read(`/v1/resource${queryOf({ name: resource, limit: 1 })}`);
  return (body as wire.Resource).waiters.map(({ holder, grantId }) => ({ holder, grantId }));
}

/** @throws InvalidOptionError, without the key: fetch's own error would have it */
function withKey(
  headers: Readonly<Record<string, string>>,
  key: string | undefined,
): Readonly<Record<string, string>> {
  if (key === undefined) return headers;
  if (!/^[!-~]{1,256}$/.test(key)) {
    throw new InvalidOptionError("apiKey", "must be a key as the server has made it: lh_...");
  }
  return { ...headers, authorization: `Bearer ${key}` };
}

function partsOf(url: string | URL): { baseUrl: string; keyInUrl: string | undefined } {
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
  if (password || search || hash) {
    throw new InvalidOptionError("url", "must have no password, query or fragment");
  }
  const keyInUrl = username === "" ? undefined : decoded(username);
  return { baseUrl: origin + pathname.replace(/\/+$/, ""), keyInUrl };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new InvalidOptionError("url", "has a key that is not percent-encoded");
  }
}
