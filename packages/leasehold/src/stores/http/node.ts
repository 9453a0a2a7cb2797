/** The entry for Node: `index.ts` with certificates and proxies. Its types are those of `index.ts`. */
import type { StoreSource, Stores } from "../source.js";
import { IN_NODE } from "./connection-node.js";
import { type HttpOptions, httpSource } from "./opening.js";

export function http(options: HttpOptions): StoreSource<Stores> {
  return httpSource(options, IN_NODE);
}
