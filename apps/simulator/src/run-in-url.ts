/** The run in the fragment of the page's URL, so that a link opens the same run. */
import {
  decodeScript,
  encodeScript,
  newScript,
  type Script,
  ScriptError,
} from "./playground/index.js";

const NAME = "run=";

/** The run of the URL. If it is invalid, the first scenario and the reason as `complaint`. */
export function readRun(): { readonly script: Script; readonly complaint: string | null } {
  const hash = location.hash.slice(1);
  const script = newScript("renew");
  if (!hash.startsWith(NAME)) return { script, complaint: null };
  try {
    return { script: decodeScript(decodeURIComponent(hash.slice(NAME.length))), complaint: null };
  } catch (error) {
    if (error instanceof ScriptError) return { script, complaint: error.message };
    if (error instanceof URIError) return { script, complaint: "The URL encoding is invalid." };
    throw error;
  }
}

export function linkTo(script: Script): string {
  const url = new URL(location.href);
  url.hash = NAME + encodeScript(script);
  return url.href;
}

/** Updates the URL without adding a history entry for each action. */
export function writeRun(script: Script): void {
  const link = linkTo(script);
  if (link !== location.href) history.replaceState(history.state, "", link);
}
