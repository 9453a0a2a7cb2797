/**
 * A stand-in for the API server of Kubernetes, as far as Lease objects go. It is NOT the real one: it was
 * written from what the real one does, and is strict where that one is, so that tests need no cluster.
 * With KUBECONFIG set, the same tests run against a real API server (kubernetes-engine.ts).
 *
 * What it does: resourceVersions that count every write in the cluster; 409 on any other version than
 * the current one, on an object that exists and on a uid that is gone; PUT creates where nothing is;
 * validation of names, labels, durations and times (exactly six digits); pages; watches that begin at a
 * version, with bookmarks, and 410 where that version is forgotten; dry runs; tokens (401), rights by verb
 * (403) and namespaces that do not exist (404).
 */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import {
  createServer as createHttpServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from "node:http";
import { createServer as createHttpsServer, Server as HttpsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { text } from "node:stream/consumers";
import { TLSSocket } from "node:tls";

export interface KubeApiOptions {
  readonly port?: number;
  /** Writes are appended to it, and read again at the next start. */
  readonly journal?: string;
  /** Default: there are `default` and `leases`. */
  readonly namespaces?: readonly string[];
  /** Serves HTTPS with these, as PEM; `ca` is the authority of clients with certificates. */
  readonly tls?: { readonly key: string; readonly cert: string; readonly ca?: string };
}

export interface KubeApi {
  readonly port: number;
  /** By token, or common name of a client's certificate: the verbs that it may use. At first `admin`, who may do everything. */
  readonly tokens: Map<string, readonly string[]>;
  /** What was asked, as `GET /path`. */
  readonly requests: string[];
  /** Forgets all versions up to now: a watch from one of them, and the next page of a list, get 410. */
  forget(): void;
  /** Ends the watches that are open, after a bookmark or without. */
  endWatches(options?: { bookmark: boolean }): void;
  read(namespace: string, name: string): StoredLease | undefined;
  /** Of connections to come; those that are open end. */
  changeCertificate(certificate: { readonly key: string; readonly cert: string }): void;
  close(): Promise<void>;
}

export interface StoredLease {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly creationTimestamp: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly [other: string]: unknown;
  };
  readonly spec: Readonly<Record<string, unknown>>;
}

interface Change {
  readonly version: number;
  readonly before: StoredLease | null;
  readonly after: StoredLease | null;
}

const GROUP = "/apis/coordination.k8s.io/v1/namespaces/";
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const LABEL = /^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$/;
const MICRO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[-+]\d\d:\d\d)$/;
const INT32 = 2 ** 31;

/** An answer that is an error, as a Status object. */
class Status extends Error {
  constructor(
    readonly code: number,
    readonly reason: string,
    message: string,
  ) {
    super(message);
  }
}

export async function startKubeApi(options: KubeApiOptions = {}): Promise<KubeApi> {
  const store = new Store(options);
  const requests: string[] = [];
  const tokens = new Map<string, readonly string[]>([["admin", ["*"]]]);
  const listener: RequestListener = (request, response) => {
    requests.push(`${request.method} ${request.url}`);
    void serve(store, tokens, request, response).catch((error: Error) => {
      const known =
        error instanceof Status ? error : new Status(500, "InternalError", String(error));
      send(response, known.code, statusOf(known));
    });
  };
  const server = options.tls
    ? createHttpsServer(
        { ...options.tls, requestCert: options.tls.ca !== undefined, rejectUnauthorized: false },
        listener,
      )
    : createHttpServer(listener);
  // As long as the real one. After Node's own 5 s, a busy machine resets what a client has just sent.
  server.keepAliveTimeout = 180_000;
  const sockets = new Set<Socket>();
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  await once(server.listen(options.port ?? 0, "127.0.0.1"), "listening");
  return {
    port: (server.address() as AddressInfo).port,
    tokens,
    requests,
    forget: () => store.forget(),
    endWatches: (options) => store.endWatches(options?.bookmark),
    read: (namespace, name) => store.objects.get(`${namespace}/${name}`),
    changeCertificate(certificate) {
      if (server instanceof HttpsServer) server.setSecureContext(certificate);
      for (const socket of sockets) socket.destroy();
    },
    async close() {
      store.endWatches();
      const closed = once(server.close(), "close");
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

class Store {
  readonly objects = new Map<string, StoredLease>();
  readonly namespaces: ReadonlySet<string>;
  readonly watchers = new Set<{ tell(change: Change): void; end(bookmark: boolean): void }>();
  version = 1_000;
  /** What happened up to here is forgotten. */
  forgotten = 1_000;
  #changes: Change[] = [];
  readonly #journal: string | undefined;

  constructor({ journal, namespaces = ["default", "leases"] }: KubeApiOptions) {
    this.namespaces = new Set(namespaces);
    if (journal !== undefined && existsSync(journal)) {
      // The last line may be half of one: its write was never answered.
      for (const line of readFileSync(journal, "utf8").split("\n").slice(0, -1)) {
        this.#apply(JSON.parse(line) as Change);
      }
    }
    this.#journal = journal;
  }

  changesAfter(version: number): readonly Change[] {
    return this.#changes.filter((change) => change.version > version);
  }

  /** @returns what is stored */
  put(object: StoredLease): StoredLease {
    const before = this.objects.get(pathOf(object)) ?? null;
    const same = (one: StoredLease | null) =>
      JSON.stringify(one && { ...one.metadata, ...one.spec });
    // A write that changes nothing makes no version.
    if (before && same(before) === same(object)) return before;
    const version = this.version + 1;
    const metadata = { ...object.metadata, resourceVersion: String(version) };
    const after = { ...object, metadata };
    this.#commit({ version, before, after });
    return after;
  }

  delete(namespace: string, name: string): void {
    const before = this.objects.get(`${namespace}/${name}`);
    if (before) this.#commit({ version: this.version + 1, before, after: null });
  }

  forget(): void {
    this.version += 1;
    this.forgotten = this.version;
    this.#changes = [];
  }

  endWatches(bookmark = true): void {
    for (const watcher of Array.from(this.watchers)) watcher.end(bookmark);
  }

  #commit(change: Change): void {
    if (this.#journal !== undefined) appendFileSync(this.#journal, `${JSON.stringify(change)}\n`);
    this.#apply(change);
    for (const watcher of this.watchers) watcher.tell(change);
  }

  #apply(change: Change): void {
    const { version, before, after } = change;
    this.version = version;
    this.#changes.push(change);
    if (after) this.objects.set(pathOf(after), after);
    else if (before) this.objects.delete(pathOf(before));
  }
}

async function serve(
  store: Store,
  tokens: ReadonlyMap<string, readonly string[]>,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const url = new URL(request.url ?? "", "http://localhost");
  const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1];
  const verbs = tokens.get(token ?? certifiedName(request) ?? "");
  if (!verbs) throw new Status(401, "Unauthorized", "Unauthorized");
  const [namespace = "", collection, name, ...more] = url.pathname.startsWith(GROUP)
    ? url.pathname.slice(GROUP.length).split("/")
    : [];
  if (collection !== "leases" || more.length > 0) {
    throw new Status(404, "NotFound", "the server could not find the requested resource");
  }
  const query = url.searchParams;
  const verb = verbOf(request.method ?? "", name, query);
  if (!verbs.includes("*") && !verbs.includes(verb)) throw forbidden(verb, namespace, name);
  if (verb === "get") return send(response, 200, answerOf(existing(store, namespace, name ?? "")));
  if (verb === "list") return send(response, 200, list(store, namespace, query));
  if (verb === "watch") return watch(store, namespace, query, request, response);
  if (verb === "delete") {
    const gone = existing(store, namespace, name ?? "");
    store.delete(namespace, gone.metadata.name);
    return send(response, 200, answerOf(gone));
  }
  const body = await bodyOf(request);
  const [code, object] =
    verb === "create"
      ? create(store, namespace, body, query)
      : update(store, namespace, name ?? "", body, query, verbs);
  send(response, code, answerOf(object));
}

function certifiedName({ socket }: IncomingMessage): string | undefined {
  if (!(socket instanceof TLSSocket) || !socket.authorized) return undefined;
  return String(socket.getPeerCertificate().subject.CN);
}

function verbOf(method: string, name: string | undefined, query: URLSearchParams): string {
  if (method === "GET" && name !== undefined) return "get";
  if (method === "GET") return query.has("watch") ? "watch" : "list";
  if (method === "POST" && name === undefined) return "create";
  if (method === "PUT" && name !== undefined) return "update";
  if (method === "DELETE" && name !== undefined) return "delete";
  throw new Status(405, "MethodNotAllowed", "the server does not allow this method");
}

function forbidden(verb: string, namespace: string, name = ""): Status {
  const which = `leases.coordination.k8s.io "${name}" is forbidden`.replace(' ""', "");
  const right = `cannot ${verb} resource "leases" in API group "coordination.k8s.io"`;
  const message = `${which}: User "tests" ${right} in the namespace "${namespace}"`;
  return new Status(403, "Forbidden", message);
}

function existing(store: Store, namespace: string, name: string): StoredLease {
  const found = store.objects.get(`${namespace}/${name}`);
  if (found) return found;
  throw new Status(404, "NotFound", `leases.coordination.k8s.io "${name}" not found`);
}

function create(
  store: Store,
  namespace: string,
  body: StoredLease,
  query: URLSearchParams,
): [number, StoredLease] {
  if (!store.namespaces.has(namespace)) {
    throw new Status(404, "NotFound", `namespaces "${namespace}" not found`);
  }
  const { name } = body.metadata;
  if (body.metadata.resourceVersion) {
    const message = "resourceVersion should not be set on objects to be created";
    throw new Status(500, "InternalError", message);
  }
  validate(body, namespace, name);
  if (store.objects.has(`${namespace}/${name}`)) {
    throw new Status(409, "AlreadyExists", `leases.coordination.k8s.io "${name}" already exists`);
  }
  const creationTimestamp = `${new Date().toISOString().slice(0, 19)}Z`;
  const metadata = { ...body.metadata, namespace, uid: randomUUID(), creationTimestamp };
  const object = { metadata, spec: body.spec ?? {} };
  return [201, query.get("dryRun") === "All" ? object : store.put(object)];
}

function update(
  store: Store,
  namespace: string,
  name: string,
  body: StoredLease,
  query: URLSearchParams,
  verbs: readonly string[],
): [number, StoredLease] {
  const before = store.objects.get(`${namespace}/${name}`);
  const { uid, resourceVersion } = body.metadata;
  const conflict = (why: string) =>
    new Status(409, "Conflict", `Operation cannot be fulfilled on leases "${name}": ${why}`);
  if (uid !== undefined && uid !== (before?.metadata.uid ?? "")) {
    throw conflict(`Precondition failed: UID in precondition: ${uid}`);
  }
  if (!before) {
    // An update of what is not there creates it, for those who may.
    if (!verbs.includes("*") && !verbs.includes("create"))
      throw forbidden("create", namespace, name);
    return create(store, namespace, body, query);
  }
  if (!resourceVersion) {
    const message = `Lease "${name}" is invalid: metadata.resourceVersion: must be specified for an update`;
    throw new Status(422, "Invalid", message);
  }
  if (resourceVersion !== before.metadata.resourceVersion) {
    throw conflict("the object has been modified; please apply your changes to the latest version");
  }
  validate(body, namespace, name);
  const { creationTimestamp } = before.metadata;
  const metadata = { ...body.metadata, namespace, uid: before.metadata.uid, creationTimestamp };
  const object = { metadata, spec: body.spec ?? {} };
  return [200, query.get("dryRun") === "All" ? before : store.put(object)];
}

function validate(body: StoredLease, namespace: string, name: string): void {
  const { metadata, spec } = body;
  const invalid = (field: string, problem: string) =>
    new Status(
      422,
      "Invalid",
      `Lease.coordination.k8s.io "${name}" is invalid: ${field}: ${problem}`,
    );
  const undecodable = (field: string) =>
    new Status(400, "BadRequest", `Lease in version "v1" cannot be handled as a Lease: ${field}`);
  if (metadata.name !== name || (metadata.namespace ?? namespace) !== namespace) {
    throw new Status(400, "BadRequest", "the name of the object does not match the URL");
  }
  if (typeof name !== "string" || name.length > 253 || !SUBDOMAIN.test(name)) {
    throw invalid("metadata.name", "a lowercase RFC 1123 subdomain is needed");
  }
  for (const [key, value] of Object.entries(metadata.labels ?? {})) {
    if (value.length > 63 || !LABEL.test(value))
      throw invalid("metadata.labels", `${key}=${value}`);
  }
  const annotations = Object.entries(metadata.annotations ?? {});
  for (const [key, value] of annotations) {
    if (!/^([a-z0-9.-]+\/)?[\w.-]{1,63}$/i.test(key)) throw invalid("metadata.annotations", key);
    if (typeof value !== "string") throw undecodable(`annotation ${key}`);
  }
  if (JSON.stringify(annotations).length > 256 * 1024)
    throw invalid("metadata.annotations", "long");
  const integer = (field: string, least: number) => {
    const value = spec?.[field] ?? null;
    if (value === null) return;
    if (!Number.isInteger(value) || (value as number) >= INT32) throw undecodable(field);
    if ((value as number) < least) throw invalid(`spec.${field}`, `at least ${least}`);
  };
  integer("leaseDurationSeconds", 1);
  integer("leaseTransitions", 0);
  for (const field of ["acquireTime", "renewTime"]) {
    const value = spec?.[field] ?? null;
    if (value !== null && !MICRO_TIME.test(String(value))) throw undecodable(`spec.${field}`);
  }
  const identity = spec?.["holderIdentity"] ?? "";
  if (typeof identity !== "string") throw undecodable("spec.holderIdentity");
}

/** Whether an object has the labels that are asked for. */
function selector(query: URLSearchParams): (object: StoredLease) => boolean {
  const terms = (query.get("labelSelector") ?? "").split(",").filter(Boolean);
  return ({ metadata: { labels = {} } }) =>
    terms.every((term) => {
      const [key = "", value] = term.split("=");
      return value === undefined ? labels[key] !== undefined : labels[key] === value;
    });
}

function list(store: Store, namespace: string, query: URLSearchParams): object {
  const selects = selector(query);
  const [begun, after = ""] = (query.get("continue") ?? "").split(" ");
  const version = begun ? Number(begun) : store.version;
  if (version < store.forgotten && begun) {
    throw new Status(410, "Expired", "The provided continue parameter is too old");
  }
  const found = [...store.objects.values()]
    .filter((one) => one.metadata.namespace === namespace && selects(one))
    .filter(({ metadata }) => metadata.name > after)
    .sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  const items = found.slice(0, Number(query.get("limit") ?? 0) || found.length);
  const rest = found.length - items.length;
  const next = `${version} ${items.at(-1)?.metadata.name}`;
  const metadata = { resourceVersion: String(version), ...(rest > 0 && { continue: next }) };
  return { kind: "LeaseList", apiVersion: "coordination.k8s.io/v1", metadata, items };
}

function watch(
  store: Store,
  namespace: string,
  query: URLSearchParams,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const selects = selector(query);
  response.writeHead(200, { "content-type": "application/json" });
  response.flushHeaders();
  const write = (type: string, object: object) => {
    response.write(`${JSON.stringify({ type, object })}\n`);
  };
  const from = Number(query.get("resourceVersion") ?? 0);
  if (from < store.forgotten) {
    const gone = new Status(410, "Expired", `too old resource version: ${from}`);
    write("ERROR", statusOf(gone));
    response.end();
    return;
  }
  const sees = (one: StoredLease | null) => one?.metadata.namespace === namespace && selects(one);
  const watcher = {
    tell({ version, before, after }: Change) {
      const [had, has] = [sees(before), sees(after)];
      const resourceVersion = String(version);
      if (has && after) write(had ? "MODIFIED" : "ADDED", answerOf(after));
      else if (had && before) {
        write(
          "DELETED",
          answerOf({ ...before, metadata: { ...before.metadata, resourceVersion } }),
        );
      }
    },
    end(bookmark: boolean) {
      if (bookmark && query.has("allowWatchBookmarks")) {
        write("BOOKMARK", { metadata: { resourceVersion: String(store.version) }, spec: {} });
      }
      store.watchers.delete(watcher);
      clearTimeout(timer);
      response.end();
    },
  };
  const timer = setTimeout(
    () => watcher.end(true),
    Number(query.get("timeoutSeconds") ?? 60) * 1_000,
  );
  for (const change of store.changesAfter(from)) watcher.tell(change);
  store.watchers.add(watcher);
  request.once("close", () => {
    clearTimeout(timer);
    store.watchers.delete(watcher);
  });
}

async function bodyOf(request: IncomingMessage): Promise<StoredLease> {
  const body = JSON.parse(await text(request)) as {
    apiVersion?: string;
    kind?: string;
  } & StoredLease;
  if (body.apiVersion !== "coordination.k8s.io/v1" || body.kind !== "Lease") {
    throw new Status(
      400,
      "BadRequest",
      "the API version in the data does not match the expected one",
    );
  }
  const { apiVersion: _, kind: __, ...object } = body;
  return object;
}

function pathOf({ metadata }: StoredLease): string {
  return `${metadata.namespace}/${metadata.name}`;
}

function answerOf(object: StoredLease): object {
  return { apiVersion: "coordination.k8s.io/v1", kind: "Lease", ...object };
}

function statusOf({ code, reason, message }: Status): object {
  return { kind: "Status", apiVersion: "v1", status: "Failure", code, reason, message };
}

function send(response: ServerResponse, code: number, body: object): void {
  response.writeHead(code, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}
