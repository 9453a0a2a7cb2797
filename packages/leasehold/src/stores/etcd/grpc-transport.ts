/**
 * etcd's own protocol, by the packages @grpc/grpc-js and protobufjs: one connection to each member that is used,
 * which all calls and watches share.
 */
import type * as Grpc from "@grpc/grpc-js";
import type Protobuf from "protobufjs";
import { StoreMisconfiguredError } from "../../lease/index.js";
import { serverProblemOf } from "../../store-kit/connecting.js";
import { driverError, driverPart } from "../../store-kit/driver.js";
import type { SecureContext } from "../../store-kit/tls-connections.js";
import type { RequestContext, Transport } from "./connection.js";
import type { Method, WatchMessage, WatchRequest } from "./connection-api.js";
import { CallFailure, noEtcd, saidFailure, unavailable } from "./failures.js";
import { PROTO } from "./grpc-messages.js";

const OPTIONS: Grpc.ChannelOptions = {
  // Each store has a connection of its own, as with every other engine.
  "grpc.use_local_subchannel_pool": 1,
  // Retries are decided in connection.ts.
  "grpc.enable_retries": 0,
  // As fetch: no proxies of the environment, no settings from DNS, no limit of the response.
  "grpc.enable_http_proxy": 0,
  "grpc.service_config_disable_resolution": 1,
  "grpc.max_receive_message_length": -1,
  // Statistics for debugging, which take time in each call.
  "grpc.enable_channelz": 0,
};

/** grpc-js reports these before it has a connection to send the request on. */
const NOT_SENT =
  /^(No connection established|Name resolution failed|Channel closed before call started)/;

/**
 * @param secureContext for connections by TLS; default: what Node trusts
 * @throws STORE_MISCONFIGURED if a package is missing
 */
export async function openGrpc(secureContext: SecureContext | null = null): Promise<GrpcTransport> {
  const [grpc, protobuf] = [await importGrpc(), await importProtobuf()];
  return new GrpcTransport(grpc, methodsOf(protobuf), secureContext);
}

async function importGrpc() {
  let loaded: typeof Grpc;
  try {
    loaded = await import("@grpc/grpc-js");
  } catch (error) {
    throw driverError("@grpc/grpc-js", error);
  }
  return driverPart("@grpc/grpc-js", "Client" in loaded ? loaded : undefined);
}

async function importProtobuf() {
  let loaded: typeof Protobuf;
  try {
    ({ default: loaded } = await import("protobufjs"));
  } catch (error) {
    throw driverError("protobufjs", error);
  }
  return driverPart("protobufjs", "parse" in loaded ? loaded : undefined);
}

interface GrpcMethod {
  readonly path: string;
  readonly encode: Grpc.serialize<object>;
  readonly decode: Grpc.deserialize<object>;
}

/** By name: no two services have a method of the same name here. */
function methodsOf({ parse }: typeof Protobuf): ReadonlyMap<string, GrpcMethod> {
  const { root, package: name = "" } = parse(PROTO, { keepCase: true });
  const methods = new Map<string, GrpcMethod>();
  for (const service of (root.lookup(name) as Protobuf.Namespace).nestedArray) {
    if (!("methodsArray" in service)) continue;
    for (const method of (service as Protobuf.Service).methodsArray) {
      const request = root.lookupType(`${name}.${method.requestType}`);
      const response = root.lookupType(`${name}.${method.responseType}`);
      methods.set(method.name, {
        path: `/${name}.${service.name}/${method.name}`,
        encode: (message) => request.encode(message).finish() as ReturnType<Grpc.serialize<object>>,
        decode: (bytes) =>
          response.toObject(response.decode(bytes), { longs: String, enums: String }),
      });
    }
  }
  return methods;
}

export class GrpcTransport implements Transport {
  readonly #clients = new Map<string, Grpc.Client>();

  constructor(
    readonly grpc: typeof Grpc,
    readonly methods: ReadonlyMap<string, GrpcMethod>,
    readonly secureContext: SecureContext | null,
  ) {}

  call(
    endpoint: string,
    method: Method,
    body: object,
    { token, signal }: RequestContext,
  ): Promise<unknown> {
    const { path, encode, decode } = this.#method(method);
    return new Promise((resolve, reject) => {
      const answered = (error: Grpc.ServiceError | null, answer?: object) => {
        signal.removeEventListener("abort", cancel);
        if (error) reject(failureOf(error, endpoint));
        else resolve(answer);
      };
      const client = this.#client(endpoint);
      const metadata = this.#metadata(token);
      const call = client.makeUnaryRequest(path, encode, decode, body, metadata, answered);
      const cancel = () => call.cancel();
      signal.addEventListener("abort", cancel);
      if (signal.aborted) cancel();
    });
  }

  async *watch(
    endpoint: string,
    body: WatchRequest,
    { token, signal }: RequestContext,
  ): AsyncGenerator<WatchMessage, void, void> {
    const { path, encode, decode } = this.#method("Watch");
    const client = this.#client(endpoint);
    const call = client.makeBidiStreamRequest(path, encode, decode, this.#metadata(token));
    const cancel = () => call.cancel();
    signal.addEventListener("abort", cancel);
    if (signal.aborted) cancel();
    // The loop below reports it, unless its reader has left.
    call.on("error", () => {});
    try {
      call.write(body);
      for await (const message of call) yield message as WatchMessage;
    } catch (error) {
      throw failureOf(error as Grpc.ServiceError, endpoint);
    } finally {
      signal.removeEventListener("abort", cancel);
      cancel();
    }
  }

  /** Calls in flight go on. A connection that was lost without notice is not used again. */
  leave(endpoint: string): void {
    this.#clients.get(endpoint)?.close();
    this.#clients.delete(endpoint);
  }

  close(): void {
    for (const endpoint of this.#clients.keys()) this.leave(endpoint);
  }

  #client(endpoint: string): Grpc.Client {
    const known = this.#clients.get(endpoint);
    if (known) return known;
    const { Client, credentials } = this.grpc;
    const { hostname, port, protocol } = new URL(endpoint);
    const isTls = protocol === "https:";
    const client = new Client(
      `dns:///${hostname}:${port || (isTls ? 443 : 80)}`,
      isTls ? this.#secure() : credentials.createInsecure(),
      OPTIONS,
    );
    this.#clients.set(endpoint, client);
    return client;
  }

  #secure(): Grpc.ChannelCredentials {
    const { ChannelCredentials, credentials } = this.grpc;
    return this.secureContext
      ? ChannelCredentials.createFromSecureContext(this.secureContext)
      : credentials.createSsl();
  }

  #metadata(token: string | null): Grpc.Metadata {
    const metadata = new this.grpc.Metadata();
    // A member that lost its leader then ends the watch instead of staying silent.
    metadata.set("hasleader", "true");
    if (token !== null) metadata.set("token", token);
    return metadata;
  }

  #method(name: string): GrpcMethod {
    return this.methods.get(name) as GrpcMethod;
  }
}

function failureOf(error: Grpc.ServiceError, endpoint: string): CallFailure {
  const { code, details } = error;
  // The second comes from its library, which reads no message that is far larger than the limit.
  if (/^(etcdserver:|grpc: received message larger)/.test(details)) {
    return saidFailure(details, code);
  }
  const status = /^Received HTTP status code (\d+)/.exec(details)?.[1];
  if (status) {
    const said = `returned status ${status}`;
    return Number(status) >= 500
      ? unavailable(`${endpoint} ${said}`, "unknown")
      : noEtcd(endpoint, said);
  }
  const said = `${endpoint}: ${details}`;
  if (!NOT_SENT.test(details)) return unavailable(said, "unknown", "unreachable", error);
  if (/Protocol error|no application protocol/.test(details)) {
    return noEtcd(endpoint, "does not speak HTTP/2, as gRPC needs");
  }
  const problem = serverProblemIn(details);
  if (problem === null) return unavailable(said, "none", "unreachable", error);
  return new CallFailure(new StoreMisconfiguredError(`${endpoint}: ${problem}`));
}

/** grpc-js reports the text of an error, without its code. */
function serverProblemIn(details: string): string | null {
  const last = /Last error: (?:Error: )?(.*?)(?:\. Resolution note|\s*$)/is.exec(details)?.[1];
  return last === undefined ? null : serverProblemOf(last);
}
