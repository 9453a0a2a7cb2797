/** A proxy for tests, by CONNECT alone, as the proxies of companies are. */
import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";

export interface ConnectProxy {
  readonly port: number;
  /** To where, in order. */
  readonly opened: readonly string[];
  /** Breaks all tunnels. */
  reset(): void;
  close(): Promise<void>;
}

/** @param options.login `user:password`; others get 407 */
export async function openConnectProxy({ login }: { login?: string } = {}): Promise<ConnectProxy> {
  const opened: string[] = [];
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("close", () => sockets.delete(socket));
    return socket;
  };
  const wanted = login === undefined ? undefined : `Basic ${Buffer.from(login).toString("base64")}`;
  const server = createServer((_, response) => response.writeHead(405).end());
  server.on("connect", ({ url = "", headers }, client: Socket) => {
    keep(client);
    if (headers["proxy-authorization"] !== wanted) {
      client.end("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
      return;
    }
    opened.push(url);
    const { hostname, port } = new URL(`http://${url}`);
    const target = keep(
      connect(Number(port || 80), hostname === "localhost" ? "127.0.0.1" : hostname),
    );
    target.once("connect", () => client.write("HTTP/1.1 200 Connection established\r\n\r\n"));
    target.once("close", () => client.destroy());
    client.once("close", () => target.destroy());
    client.pipe(target).pipe(client);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const reset = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    opened,
    reset,
    async close() {
      reset();
      const closed = once(server.close(), "close");
      server.closeAllConnections();
      await closed;
    },
  };
}
