import { Icon, IconButton, useTheme } from "leasehold-ui";

export function ThemeButton() {
  const { dark, choose } = useTheme();
  return (
    <IconButton
      label={dark ? "Light theme" : "Dark theme"}
      onClick={() => choose(dark ? "light" : "dark")}
    >
      <Icon name={dark ? "sun" : "moon"} />
    </IconButton>
  );
}
