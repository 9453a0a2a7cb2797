/** The options of the app, and the app as hosts see it. */
import { type Env, InvalidOptionError, type LeaseStore } from "leasehold";
import type {
  Backing,
  Control,
  GrantHistory,
  OnceStore,
  ScheduleStore,
  TaskListener,
  TaskStore,
} from "leasehold/internal";
import type { Auth } from "./auth/authenticate.js";
import type { ClientCertificates } from "./auth/certificates.js";
import type { AddressList } from "./auth/client-address.js";
import type { AllowedFrom } from "./auth/networks.js";
import type { OidcOptions } from "./auth/oidc/options.js";
import { checkBasePath } from "./base-path.js";
import type { ConsoleFiles } from "./console/static.js";
import type { LeaseListener } from "./lease-calls.js";
import type { ServerLimits } from "./limits/limits.js";
import type { Refusal } from "./problems.js";
import type { Connection } from "./request.js";

/** Options of `createApp`: its stores, as `openStores` returns them, and how it serves them. */
export interface AppOptions {
  /** The store of the leases. It stays yours to close. */
  readonly leases: LeaseStore;
  /** The store of the tasks. It stays yours to close. */
  readonly tasks: TaskStore;
  /** The records of `once`, in the database of `leases`. Default: none; their routes return 501. */
  readonly once?: OnceStore | undefined;
  /** The schedules of `tasks`, in their database. The app ticks. Default: none; their routes return 501. */
  readonly schedules?: ScheduleStore | undefined;
  /** Where the app keeps what the generator of sample tasks should do. Default: in this process. */
  readonly backing?: Backing | undefined;
  /**
   * Stores grants that newer ones replaced. The app writes them about once a second, after the new
   * grant, and keeps them for a week. Default: replaced grants are not kept.
   */
  readonly history?: GrantHistory | undefined;
  /** Keys, the audit, pauses and limits. Default: none; routes that need them return 501. */
  readonly control?: Control | undefined;
  /**
   * Whether requests need a key. `keys`: always. `ifAny`: from the first key in the control store on, for good;
   * the app checks every 2 s; before, only programs of this machine have access. `none`: never, and every
   * caller is an admin: for hosts that authenticate callers themselves. Default `keys`. A request with a key
   * uses the key's namespace, a request without one uses {@link AppOptions.namespace}.
   */
  readonly auth?: Auth;
  /**
   * With `auth: "keys"`: a secret of at least 32 characters with which a caller creates the first key, an admin's,
   * by POST /v1/keys. It can be used once, and only while no key was ever created. Default: none.
   */
  readonly bootstrapToken?: string | undefined;
  /**
   * With `auth: "keys"`: callers may send a token of an OpenID Connect issuer instead of a key, and people may sign in to
   * the console. Needs no control store. Default: only keys.
   */
  readonly oidc?: OidcOptions | undefined;
  /**
   * Host names that requests without a key must use, like `localhost` or `[::1]`; `any`: any. With `ifAny`, the
   * default is the names of this machine. Names also refuse requests that a proxy forwards, and names of this
   * machine those from other addresses. With `none`, the default is `any`; names apply to the Origin that browsers
   * send, too. With `ifAny`, the Origin must be the app's own, whatever this says.
   */
  readonly trustedHosts?: readonly string[] | "any";
  /**
   * The longest lifetime of a new key; one without an end is then refused. Keys that exist are not changed. Default: none.
   */
  readonly keyMaxLifeMs?: number | undefined;
  /**
   * What certificates of clients mean, which {@link listen} and {@link nodeHandler} take from their connections. Default:
   * nothing.
   */
  readonly clientCertificates?: ClientCertificates | undefined;
  /**
   * Proxies whose `X-Forwarded-For` names the client. Default: none, and the client of a request is the other end of its
   * connection.
   */
  readonly trustedProxies?: AddressList | undefined;
  /**
   * Returns the addresses from which a tenant may be used; undefined: all. Requests from elsewhere get 403, also with a valid
   * key. Default: all tenants from all addresses.
   */
  readonly allowedFrom?: AllowedFrom | undefined;
  /**
   * Whether the audit has an entry for each request of a known caller that was refused: its role or prefixes do not
   * suffice, or its key has ended. At most 10 of each caller in a minute. Needs a control store. Default false.
   */
  readonly auditDenials?: boolean | undefined;
  /** The same for each read of the audit and of the keys. Default false. */
  readonly auditReads?: boolean | undefined;
  /** Limits of this instance. Default: {@link DEFAULT_LIMITS}. */
  readonly limits?: Partial<ServerLimits>;
  /** Clock, randomness, logger and telemetry. Default: the system's, without logs and metrics. */
  readonly env?: Partial<Env>;
  /** Returns the metrics in Prometheus's text format, for GET /metrics. Default: it returns 501. */
  readonly metrics?: () => Promise<string>;
  /** The namespace of requests without a key. Default `default`. */
  readonly namespace?: string;
  /**
   * The path below which clients reach the app, like `/leasehold`. Other paths return 404. Default
   * none: the app is the whole origin, or a mount strips the path.
   */
  readonly basePath?: string;
  /** Shown by /healthz and in the OpenAPI document. */
  readonly version: string;
  /** The console to serve beside the API, as `consoleFiles()` reads it on Node. Default: none. */
  readonly console?: ConsoleFiles | null;
  /** Name of the stores' engine, for people: `postgres`, `memory`. Default: not shown. */
  readonly engine?: string;
  /** Receives the task events of this instance. An error that it throws is logged. Default: no listener. */
  readonly onTaskEvent?: TaskListener;
  /** Receives the lease events of this instance. An error that it throws is logged. Default: no listener. */
  readonly onLeaseEvent?: LeaseListener;
}

/** The server as a function from requests to answers, which any HTTP server can call. */
export interface ServerApp {
  /** The option of the same name; absent: none. */
  readonly basePath?: string;
  /**
   * Answers any request. Never rejects.
   * @param connection its remote address, which {@link nodeHandler} and {@link listen} tell: with `auth: "ifAny"`,
   *   requests of other machines, and those without an address, need a key
   */
  fetch(request: Request, connection?: Connection): Promise<Response>;
  /**
   * The response of `fetch` to a request with this head if the instance is overloaded, otherwise null.
   * Hosts can send it before they create a Request, which costs several times as much.
   * @example
   * ```ts
   * import { openStores } from "leasehold";
   * import { createApp } from "leasehold-server";
   *
   * const stores = await openStores("memory:");
   * const app = createApp({ ...stores, version: "1.0.0" });
   * const head = { method: "GET", url: "/v1/leases", requestId: undefined };
   * console.log(app.refusal?.(head)?.status ?? "admitted");
   * await app.close();
   * await stores.close();
   * ```
   */
  refusal?(head: {
    readonly method: string;
    readonly url: string;
    readonly requestId: string | undefined;
  }): Refusal | null;
  /**
   * From now on /readyz answers 503, so that load balancers send requests elsewhere; all else is served as before.
   * Call {@link ServerApp.close} when they have noticed.
   * @example
   * ```ts
   * import { openStores } from "leasehold";
   * import { createApp } from "leasehold-server";
   *
   * const stores = await openStores("memory:");
   * const app = createApp({ ...stores, version: "1.0.0" });
   * app.drain();
   * console.log((await app.fetch(new Request("http://localhost/readyz"))).status);
   * await app.close();
   * await stores.close();
   * ```
   */
  drain(): void;
  /**
   * Ends the waits of /api/tasks/next and the streams of /v1/events, refuses later requests (503),
   * writes pending history and stops the background work. The stores stay open: the caller that opened
   * them closes them.
   */
  close(): Promise<void>;
}

/** @throws InvalidOptionError */
export function checkOptions(options: AppOptions, auth: Auth): void {
  const { basePath, control, bootstrapToken, leases, oidc } = options;
  checkBasePath(basePath ?? "");
  if (oidc !== undefined && auth !== "keys")
    throw new InvalidOptionError("oidc", 'needs auth: "keys"');
  if (auth === "keys" && !control && !oidc) {
    throw new InvalidOptionError(
      "auth",
      'is keys by default, which needs a control store: pass one, or auth: "none" if your host authenticates callers, or "ifAny" for programs of this machine',
    );
  }
  for (const name of ["auditDenials", "auditReads"] as const) {
    if (!options[name] || control) continue;
    throw new InvalidOptionError(name, "needs a control store, which has the audit");
  }
  if (bootstrapToken !== undefined && auth !== "keys") {
    throw new InvalidOptionError("bootstrapToken", 'needs auth: "keys"');
  }
  if (bootstrapToken !== undefined && !/^[!-~]{32,}$/.test(bootstrapToken)) {
    throw new InvalidOptionError("bootstrapToken", "must be at least 32 characters of ASCII");
  }
  // Clients fence with the tokens in its responses.
  if (leases.capabilities.tokens === false) {
    throw new InvalidOptionError("leases", "without fencing tokens cannot be served");
  }
}
