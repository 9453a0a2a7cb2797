/** Chooses between gRPC and the JSON gateway. */
import { fetchOver, type SecureContext } from "../../core/tls-connections.js";
import type { Logger } from "../../env/index.js";
import type { RequestContext, Transport } from "./connection.js";
import type { Method, WatchMessage, WatchRequest } from "./connection-api.js";
import { CallFailure } from "./failures.js";
import { JsonTransport } from "./json-transport.js";

export const TRANSPORTS = ["grpc", "json"] as const;
export type TransportName = (typeof TRANSPORTS)[number];

interface TransportOptions {
  /** For JSON without certificates. */
  readonly fetch: typeof globalThis.fetch;
  /** The certificates of connections by TLS; null: what Node trusts. */
  readonly secureContext: SecureContext | null;
  readonly logger: Logger;
}

/**
 * @param name null: gRPC where its packages are installed and the server answers it, else JSON
 * @throws STORE_MISCONFIGURED if gRPC is required and a package is missing
 */
export async function openTransport(
  name: TransportName | null,
  { fetch, secureContext, logger }: TransportOptions,
): Promise<Transport> {
  const own = secureContext && fetchOver(secureContext);
  const json = own ? new JsonTransport(own.fetch, own.close) : new JsonTransport(fetch);
  if (name === "json") return json;
  try {
    const { openGrpc } = await import("./grpc-transport.js");
    const grpc = await openGrpc(secureContext);
    return name === "grpc" ? grpc : new PreferredTransport(grpc, json, logger);
  } catch (error) {
    if (name === "grpc") throw error;
    sayJson(logger, error);
    return json;
  }
}

/** Uses the first transport until a server turns out not to answer it, as behind a proxy for HTTP/1. */
class PreferredTransport implements Transport {
  #current: Transport;

  constructor(
    first: Transport,
    readonly second: Transport,
    readonly logger: Logger,
  ) {
    this.#current = first;
  }

  async call(
    endpoint: string,
    method: Method,
    body: object,
    context: RequestContext,
  ): Promise<unknown> {
    const used = this.#current;
    try {
      return await used.call(endpoint, method, body, context);
    } catch (error) {
      this.#replace(used, error);
      return this.second.call(endpoint, method, body, context);
    }
  }

  watch(
    endpoint: string,
    body: WatchRequest,
    context: RequestContext,
  ): AsyncIterable<WatchMessage> {
    return this.#current.watch(endpoint, body, context);
  }

  leave(endpoint: string): void {
    this.#current.leave(endpoint);
  }

  close(): void {
    this.#current.close();
    this.second.close();
  }

  /** @throws the error if it is another one */
  #replace(used: Transport, error: unknown): void {
    if (!(error instanceof CallFailure) || error.reason !== "noHttp2") throw error;
    if (this.#current === used) sayJson(this.logger, error.error);
    used.close();
    this.#current = this.second;
  }
}

function sayJson(logger: Logger, err: unknown): void {
  logger.debug({ err }, "etcd is reached by its JSON gateway, which is slower than gRPC");
}
