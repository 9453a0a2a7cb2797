/** A program of a user's, with the server. Only compiled. */
import { createServer } from "node:http";
import { openStores } from "leasehold";
import { createApp, listen, nodeHandler } from "leasehold-server";

export async function serve(): Promise<string> {
  const stores = await openStores("memory:");
  const app = createApp({ ...stores, auth: "ifAny", basePath: "/leasehold", version: "1" });
  const response: Response = await app.fetch(new Request("http://localhost/leasehold/healthz"));
  if (!response.ok) throw new Error(await response.text());
  const handler = nodeHandler(app);
  createServer((request, answer) => handler(request, answer)).listen(3_000);
  const { url } = await listen({ app, port: 0 });
  return url;
}
