/** For `node --import`: a project where fast-check is not installed. */
import { register } from "node:module";

const hooks = `export async function resolve(name, context, next) {
  if (name !== "fast-check") return next(name, context);
  throw Object.assign(new Error("Cannot find package"), { code: "ERR_MODULE_NOT_FOUND" });
}`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
