/** Quotes text as one word of a shell, if it needs quotes. zsh takes `=name` for the path of a command. */
export function quoted(text: string): string {
  return /^[\w@%+:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
