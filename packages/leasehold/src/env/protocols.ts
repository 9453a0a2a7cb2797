/**
 * Finds out what listens at an address, when a store does not get the answers that it expects. A Redis server
 * behind `postgres://` waits for more forever, and a client cannot tell it from a slow server.
 *
 *   asked for what is expected ─── answers ──▶ the right server: slow, or failing for a reason of its own
 *            └─── no answer ─▶ asked for each other protocol, each by a connection of its own ─▶ what answers
 *
 * The requests change nothing: each asks for a version or for TLS, and is refused or answered.
 */

export const PROTOCOLS = ["PostgreSQL", "Redis", "HTTP", "TLS", "ZooKeeper"] as const;
export type Protocol = (typeof PROTOCOLS)[number];

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** How long each of the two rounds may take, in milliseconds. */
const ROUND_MS = 250;

/** What is sent, and what the first bytes of the answer look like. */
const REQUESTS: Readonly<Record<Exclude<Protocol, "TLS">, readonly [Uint8Array, RegExp]>> = {
  // The request for TLS: "S" or "N" is the answer, before any login.
  PostgreSQL: [Uint8Array.of(0, 0, 0, 8, 4, 210, 22, 47), /^[SN]$/],
  // Redis answers an error of its own, such as "-ERR unknown command" or "-NOAUTH".
  Redis: [textOf("OPTIONS * HTTP/1.0\r\n\r\n"), /^-[A-Z]+ /],
  HTTP: [textOf("OPTIONS * HTTP/1.0\r\n\r\n"), /^HTTP\/\d/],
  ZooKeeper: [textOf("srvr"), /^(Zookeeper version|srvr is not executed)/],
};

/**
 * What listens at the address: null if the expected protocol answers, if nothing answers, or outside Node.
 */
export async function otherProtocolAt(
  address: Address,
  expected: Protocol,
): Promise<Protocol | null> {
  if (await answers(address, expected)) return null;
  // A server with TLS may answer a plain request with a page that says so: TLS counts first.
  const others = (["PostgreSQL", "TLS", "Redis", "HTTP", "ZooKeeper"] as const).filter(
    (protocol) => protocol !== expected,
  );
  const answered = await Promise.all(others.map((protocol) => answers(address, protocol)));
  return others.find((_, at) => answered[at]) ?? null;
}

function answers({ host, port }: Address, protocol: Protocol): Promise<boolean> {
  const { net, tls } = modules();
  if (!net || !tls) return Promise.resolve(false);
  return new Promise((resolve) => {
    const socket =
      protocol === "TLS"
        ? // Only whether it speaks TLS is asked: nothing is sent over this connection.
          tls.connect({ host, port, rejectUnauthorized: false }, () => end(true))
        : net.connect({ host, port });
    const end = (answered: boolean) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(answered);
    };
    const timer = setTimeout(() => end(false), ROUND_MS);
    // An alert is an answer in TLS too, as that of a server that misses a certificate of the client.
    socket.on("error", (error: NodeJS.ErrnoException) =>
      end(protocol === "TLS" && /_ALERT_/.test(error.code ?? "")),
    );
    socket.on("close", () => end(false));
    if (protocol === "TLS") return;
    const [request, answer] = REQUESTS[protocol];
    socket.on("connect", () => socket.write(request));
    socket.once("data", (bytes: Uint8Array) =>
      end(answer.test(String.fromCharCode(...bytes.subarray(0, 64)))),
    );
  });
}

/** Without an import, because this runs in browsers too, where there are no sockets. */
function modules() {
  const { process } = globalThis as { process?: Partial<NodeJS.Process> };
  const net = process?.getBuiltinModule?.("net");
  const tls = process?.getBuiltinModule?.("tls");
  return { net, tls };
}

function textOf(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
