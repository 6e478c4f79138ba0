"use strict";
const root = document.documentElement;
const select = document.getElementById("task");

// The filter: one task, or all. What is about all tasks together is shown with all only.
function showTask(task) {
  for (const section of document.querySelectorAll("[data-task]")) {
    section.hidden = task !== "" && section.dataset.task !== task;
  }
  for (const section of document.querySelectorAll(".across")) {
    section.hidden = task !== "";
  }
}
if (select) {
  select.addEventListener("change", () => showTask(select.value));
  showTask(select.value); // a browser that goes back keeps what was chosen
}

// Light or dark: the machine's, until the reader says otherwise.
document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});

// A number leads to its runs, and opens them; one that compares two methods opens both.
function openTarget() {
  const target = location.hash.length > 1 ? document.getElementById(location.hash.slice(1)) : null;
  if (target && target.tagName === "DETAILS") {
    for (let part = target; part; part = part.parentElement.closest("details")) {
      part.open = true;
    }
    target.scrollIntoView({ block: "start" });
  }
}
addEventListener("hashchange", openTarget);
for (const link of document.querySelectorAll('a[href^="#runs-"]')) {
  link.addEventListener("click", () => {
    for (const name of (link.dataset.also || "").split(" ").filter(Boolean)) {
      document.getElementById(name).open = true;
    }
    setTimeout(openTarget); // also when it is clicked a second time
  });
}
openTarget();

// A legend's entry switches its line off and on.
for (const key of document.querySelectorAll(".key")) {
  key.addEventListener("click", () => {
    const on = key.getAttribute("aria-pressed") !== "true";
    key.setAttribute("aria-pressed", String(on));
    const series = key.closest("figure").querySelector(`.series[data-series="${key.dataset.series}"]`);
    series.toggleAttribute("hidden", !on);
  });
}
