/** Notes on names that look like others. They are good names, but a person may take one for another. */

const INVISIBLE = /[\p{Cc}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;
/** Scripts with letters that look alike. */
const ALIKE = {
  Latin: /\p{Script=Latin}/u,
  Greek: /\p{Script=Greek}/u,
  Cyrillic: /\p{Script=Cyrillic}/u,
  Armenian: /\p{Script=Armenian}/u,
  Cherokee: /\p{Script=Cherokee}/u,
};
const NO_LETTER = /[^\p{L}\p{M}]+/u;

/** The notes on some names, each name once. */
export function notesOn(names: readonly string[]): string[] {
  return [...new Set(names)].flatMap((name) => {
    const note = noteOn(name);
    return note === null ? [] : [`note: ${escaped(name)} ${note}`];
  });
}

function noteOn(name: string): string | null {
  if (INVISIBLE.test(name)) return "has characters that are not shown";
  for (const word of name.split(NO_LETTER)) {
    const scripts = Object.entries(ALIKE).filter(([, letters]) => letters.test(word));
    const mixed = scripts.map(([script]) => script);
    if (mixed.length > 1) return `mixes ${mixed.join(" and ")} letters, some of which look alike`;
  }
  if (name !== name.normalize("NFC")) {
    return "is not in Unicode's form NFC: another name may look the same";
  }
  return null;
}

/** Shows what a person cannot tell apart: all but ASCII as escapes. */
function escaped(name: string): string {
  return JSON.stringify(name).replace(/[^\x20-\x7e]/gu, (character) => {
    const code = character.codePointAt(0)?.toString(16) ?? "";
    return `\\u{${code}}`;
  });
}
