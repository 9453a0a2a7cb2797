/** The URL for display, with the password or the API key masked. */
export function shownUrl(text: string): string {
  // A URL with several hosts cannot be parsed.
  if (!URL.canParse(text)) return text.replace(/^(\w+:\/\/[^:@/?#]*):[^@/?#]*@/, "$1:***@");
  const url = new URL(text);
  const isServer = /^https?:$/.test(url.protocol);
  if (isServer && url.username) url.username = "***";
  if (url.password) url.password = "***";
  return url.username || url.password ? url.href : text;
}
