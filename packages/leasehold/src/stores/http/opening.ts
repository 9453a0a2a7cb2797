import { retryingOperator } from "../../control/operations.js";
import type { Env } from "../../env/index.js";
import {
  BACKING_RETRIES,
  checkObject,
  checkUrl,
  InvalidOptionError,
  LEASE_RETRIES,
  ONCE_RETRIES,
  Retrying,
  SCHEDULE_RETRIES,
  TASK_RETRIES,
  withRetries,
  withRetriesLater,
} from "../../lease/index.js";
import { checkFetchPorts } from "../../store-kit/blocked-ports.js";
import type { TlsOptions } from "../../store-kit/tls.js";
import type { ParameterTable } from "../../store-kit/url-parameters.js";
import type * as wire from "../../wire/index.js";
import { BOUNDS } from "../../wire/index.js";
import type { StoreSource, Stores } from "../source.js";
import { type Connection, type Fetch, HttpClient, queryOf } from "./connection.js";
import { type Address, addressOf } from "./connection-address.js";
import { Servers } from "./connection-servers.js";
import { checkToken, fetchWithToken, type TokenSource, Tokens } from "./connection-token.js";
import { backingOf, HttpOperator } from "./control.js";
import type { HttpOnceStore } from "./once.js";
import type { HttpScheduleStore } from "./schedules.js";
import { HttpLeaseStore } from "./store.js";
import { HttpTaskStore } from "./tasks.js";

/** Options of {@link http}. */
export interface HttpOptions {
  /**
   * URL of a Leasehold server, including its base path if it has one. `http://KEY@host` carries the API key.
   * Several servers on one database have commas between them: `http://a:4040,b:4040`. In Node, `https://` URLs may
   * name PEM files: `?cacert=` of the authority, `?cert=` and `?key=` of this client.
   */
  readonly url: string | URL;
  /**
   * The API key (`lh_...`), if the server requires one. The client sends it to this server only; errors
   * and logs never contain it. Default: the key in the URL, or none.
   */
  readonly apiKey?: string;
  /**
   * Instead of a key: a token of the issuer that the server trusts (`leasehold serve --oidc-issuer`), or a function that
   * returns one. The client calls the function once for all calls that need a token: before the first one, in time
   * before a JSON Web Token ends, and when the server refuses the token. If the function rejects, calls fail with
   * STORE_UNAVAILABLE, which leases survive as long as they are trusted.
   * Default: none; in Node the file that LEASEHOLD_TOKEN_FILE names, read again in the same way.
   */
  readonly token?: string | (() => string | Promise<string>);
  /**
   * Headers sent with every request; `authorization` is for proxies that require their own credentials. Default: none.
   */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * In Node: certificates for `https://`, by the package undici. Default: the files that the URL names, else those
   * of LEASEHOLD_CACERT, LEASEHOLD_CERT and LEASEHOLD_CERT_KEY.
   */
  readonly tls?: TlsOptions;
  /**
   * Default: the global fetch; in Node one of the package undici where there are certificates, or where the environment
   * names a proxy (HTTP_PROXY, HTTPS_PROXY, NO_PROXY). An app's own `fetch` reaches the app without a network.
   */
  readonly fetch?: typeof globalThis.fetch;
}

/** How requests reach servers. */
export interface Transport {
  readonly fetch: typeof globalThis.fetch;
  /** Sends the first request. A server of another kind is reported as such. */
  first<T>(request: () => Promise<T>): Promise<T>;
  /** Reads the token that the environment names. */
  readonly token: TokenSource | undefined;
  close(): void;
}

/** What Node adds. */
export interface InNode {
  /** Of a URL with TLS. */
  readonly parameters: ParameterTable;
  /**
   * Returns what opens the transport.
   * @throws InvalidOptionError. On opening: STORE_MISCONFIGURED
   */
  transport(options: HttpOptions, address: Address): (env: Env) => Promise<Transport>;
}

/** @param inNode absent elsewhere */
export function httpSource(options: HttpOptions, inNode?: InNode): StoreSource<Stores> {
  checkObject("options", options);
  checkUrl(options.url);
  const address = addressOf(options.url, inNode?.parameters);
  const { baseUrls, apiKey } = address;
  if (!options.fetch) checkFetchPorts("url", baseUrls);
  const openTransport = inNode?.transport(options, address);
  if (options.tls && !inNode) throw new InvalidOptionError("tls", "needs Node");
  const { token } = options;
  const key = options.apiKey ?? apiKey;
  if (token !== undefined) checkTokenOption(token, key);
  const fixed = typeof token === "string" ? token : key;
  const headers = withKey(options.headers ?? {}, fixed);
  return {
    async open(env: Env, timeoutMs?: number): Promise<Stores> {
      const transport = await openTransport?.(env);
      const plain = transport?.fetch ?? options.fetch ?? globalThis.fetch;
      const source = typeof token === "function" ? token : fixed === undefined && transport?.token;
      const tokens = source ? new Tokens(source, env) : undefined;
      const fetch: Fetch = tokens ? (url, init) => fetchWithToken(tokens, plain, url, init) : plain;
      const servers = new Servers(baseUrls);
      const maxBodyBytes = BOUNDS.payloadBodyBytes;
      const asking: Connection = {
        servers,
        namespace: "",
        headers,
        fetch,
        renewsToken: tokens !== undefined,
        env,
        maxBodyBytes,
      };
      const opening = new HttpClient(asking);
      const read = (leftMs: number) => opening.read("/v1/capabilities", leftMs);
      const first = () => new Retrying(env).call(read, { timeoutMs });
      const reading = transport ? transport.first(first) : first();
      const { body } = await reading.catch((error: unknown) => {
        opening.close();
        transport?.close();
        throw error;
      });
      const { namespace, ...capabilities } = body as wire.ServerCapabilities;
      // A server of an older version announces no limit, and has the one above. It keeps no records of `once` and no schedules either.
      const {
        maxBodyBytes: announced = maxBodyBytes,
        once: keepsOnce = false,
        schedules: keepsSchedules = false,
        taskLimits: keepsLimits = false,
      } = body as Partial<wire.ServerCapabilities>;
      const connection: Connection = { ...asking, namespace, maxBodyBytes: announced };
      const client = new HttpClient(connection);
      const leases = withRetries(
        new HttpLeaseStore(connection, capabilities.leases),
        LEASE_RETRIES,
        new Retrying(env),
      );
      const tasks = withRetries(
        new HttpTaskStore(connection, capabilities.tasks, keepsLimits),
        TASK_RETRIES,
        new Retrying(env),
      );
      let loading: Promise<HttpOnceStore> | undefined;
      // Loaded at first use: most pages have no use for it.
      const openOnce = () =>
        (loading ??= import("./once.js").then(
          (once) => new once.HttpOnceStore(connection, leases),
        ));
      let loadingSchedules: Promise<HttpScheduleStore> | undefined;
      const openSchedules = () =>
        (loadingSchedules ??= import("./schedules.js").then(
          (schedules) => new schedules.HttpScheduleStore(connection),
        ));
      const operator = new HttpOperator(connection, {
        once: openOnce,
        schedules: openSchedules,
      });
      return {
        namespace,
        leases,
        tasks,
        ...(keepsOnce && { once: { leases, ...withRetriesLater(openOnce, ONCE_RETRIES, env) } }),
        ...(keepsSchedules && {
          schedules: withRetriesLater(openSchedules, SCHEDULE_RETRIES, env),
        }),
        backing: withRetries(backingOf(client), BACKING_RETRIES, new Retrying(env)),
        operator: retryingOperator(operator, env),
        waiters: ({ namespace: wanted, resource }) => {
          client.checkNamespace(wanted);
          return waitersOf(client, resource);
        },
        denied: async ({ namespace: wanted, resource }) => {
          client.checkNamespace(wanted);
          // A server of an older version does not say.
          return (await resourceOf(client, resource)).denied ?? null;
        },
        async close() {
          await Promise.all([leases.close(), tasks.close()]);
          client.close();
          (await loading)?.close();
          (await loadingSchedules)?.close();
          operator.close();
          transport?.close();
        },
      };
    },
  };
}

/** As the instance that answers has seen them. */
async function waitersOf(client: HttpClient, resource: string) {
  const { waiters } = await resourceOf(client, resource);
  return waiters.map(({ holder, grantId }) => ({ holder, grantId }));
}

type Answered = Omit<wire.Resource, "denied"> & Partial<Pick<wire.Resource, "denied">>;

async function resourceOf(client: HttpClient, resource: string): Promise<Answered> {
  const { body } = await client.read(`/v1/resource${queryOf({ name: resource, limit: 1 })}`);
  return body as Answered;
}

/** @throws InvalidOptionError */
function checkTokenOption(token: unknown, key: string | undefined): void {
  if (key !== undefined) throw new InvalidOptionError("token", "excludes a key: pass one of them");
  if (typeof token !== "function") checkToken(token);
}

/**
 * @throws InvalidOptionError without the key, which fetch's own error would contain
 */
function withKey(
  headers: Readonly<Record<string, string>>,
  key: string | undefined,
): Readonly<Record<string, string>> {
  if (key === undefined) return headers;
  if (!/^[!-~]{1,16384}$/.test(key)) {
    throw new InvalidOptionError("apiKey", "must be a key issued by the server: lh_...");
  }
  return { ...headers, authorization: `Bearer ${key}` };
}
