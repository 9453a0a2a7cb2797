/**
 * Characters that a terminal does not show as themselves. Names, reasons and errors come from other programs. Control
 * characters in them would move the cursor, clear the screen or forge lines, and invisible ones would make two names
 * look the same.
 */

/** Control and format characters: C0, C1, those of bidirectional text, those without a width; and line separators. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** Makes each hidden character visible, as `\u{202e}` or `\n`, but for those in `keep`. */
export function escapeHidden(text: string, keep = ""): string {
  return replaceHidden(text, keep, (character) => {
    const hex = character.codePointAt(0)?.toString(16);
    return SHORT[character] ?? `\\u{${hex}}`;
  });
}

/** The same JSON value, with `\u202e` where JSON allows the character itself. Line ends between values stay. */
export function escapeHiddenJson(json: string): string {
  return replaceHidden(json, "\n", (character) =>
    Array.from({ length: character.length }, (_, index) => {
      const unit = character.charCodeAt(index).toString(16);
      return `\\u${unit.padStart(4, "0")}`;
    }).join(""),
  );
}

function replaceHidden(text: string, keep: string, escape: (character: string) => string): string {
  return text.replace(HIDDEN, (character) =>
    keep.includes(character) ? character : escape(character),
  );
}
