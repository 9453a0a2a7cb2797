// Runs the bundle of a page where there are the globals of the web and nothing else: node in-realm.js BUNDLE URL
import { readFile } from "node:fs/promises";
import { runInContext } from "node:vm";
import { webRealm } from "../support/processes/web-realm.js";

const [bundle = "", url = ""] = process.argv.slice(2);
const realm = webRealm();
// What bundlers look for in a page.
Object.assign(realm, { self: realm, window: realm });
runInContext(await readFile(bundle, "utf8"), realm);
await realm.exercise(url);
// A page has no end: its message channel stays open.
process.exit(0);
