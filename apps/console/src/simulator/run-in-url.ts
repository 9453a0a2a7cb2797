/** The run in the page's address, after the `#`: a link to it is the run itself. */
import {
  decodeScript,
  encodeScript,
  newScript,
  type Script,
  ScriptError,
} from "./playground/index.js";

const NAME = "run=";

/** The run of the address, or the first scenario and, for an address that says nonsense, why. */
export function readRun(): { readonly script: Script; readonly complaint: string | null } {
  const hash = location.hash.slice(1);
  const script = newScript("renew");
  if (!hash.startsWith(NAME)) return { script, complaint: null };
  try {
    return { script: decodeScript(decodeURIComponent(hash.slice(NAME.length))), complaint: null };
  } catch (error) {
    if (error instanceof ScriptError) return { script, complaint: error.message };
    if (error instanceof URIError) return { script, complaint: "it is not well written" };
    throw error;
  }
}

export function linkTo(script: Script): string {
  const url = new URL(location.href);
  url.hash = NAME + encodeScript(script);
  return url.href;
}

/** The address follows the run, without a new entry in the history for each act. */
export function writeRun(script: Script): void {
  const link = linkTo(script);
  // Called on the prototype: a router that watches the history has nothing to do with it.
  if (link !== location.href) History.prototype.replaceState.call(history, history.state, "", link);
}
