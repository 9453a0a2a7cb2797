/** Bodies and answers of /v1/kinds: the KindStore port. The server adds the namespace. */
import type { Page } from "../core/index.js";
import type * as tasks from "../tasks/index.js";
import type * as port from "../tasks/kinds/port.js";

export type Kind = port.KindView;
export type KindPage = Page<Kind>;

export interface PublishKindRequest {
  /** A JSON Schema. */
  readonly schema: tasks.Json;
  /** Who publishes it, for people; default: the name of the key. */
  readonly publishedBy?: string;
}
export interface KindPublished {
  readonly kind: string;
  readonly version: number;
  readonly change: "added" | "changed" | "none";
}
export interface KindWithdrawn {
  readonly kind: string;
  readonly version: number;
  /** False: it was not published. */
  readonly wasPublished: boolean;
}
