import type { Env } from "../../env/index.js";
import type { Backend } from "./connection.js";
import type { Listener } from "./watch.js";

/** State shared by the stores of one database. */
export interface Connections {
  readonly backend: Backend;
  readonly listener: Listener;
  readonly env: Env;
}
