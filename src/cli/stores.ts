import type { Env } from "../env/index.js";
import { openStores } from "../stores/open.js";
import type { Stores } from "../stores/source.js";
import type { Where } from "./options.js";

/** PGlite makes its first database in a few seconds, on a busy machine in many more. */
export const CONNECT_TIMEOUT_MS = 30_000;

/** Opens the store and, where it is another place, the control store; close() closes both. */
export function openWhere({ store, control }: Where, env: Env): Promise<Stores> {
  const apart = control === store ? undefined : control;
  return openStores(store, apart, env, CONNECT_TIMEOUT_MS);
}

/** The URL as it may be shown: without its password. */
export function shownUrl(text: string): string {
  // A list of hosts is no URL.
  if (!URL.canParse(text)) return text.replace(/^(\w+:\/\/[^:@/?#]*):[^@/?#]*@/, "$1:***@");
  const url = new URL(text);
  if (!url.password) return text;
  url.password = "***";
  return url.href;
}
