// What scripts add to the pages. Every form works without them.
"use strict";

// After a form was refused, the summary of errors is read first.
const summary = document.getElementById("error-summary");
if (summary) summary.focus();

// One box that chooses every request of the list.
function addChooseAll(root) {
  const head = root.querySelector("table.choosable thead .pick");
  const boxes = [...root.querySelectorAll("table.choosable tbody input[type=checkbox]")];
  if (!head || boxes.length < 2 || head.querySelector("input")) return;
  const all = document.createElement("input");
  all.type = "checkbox";
  all.setAttribute("aria-label", "Choose all requests on this page");
  all.addEventListener("change", () => boxes.forEach((box) => { box.checked = all.checked; }));
  head.append(all);
}
addChooseAll(document);
document.addEventListener("htmx:afterSettle", () => addChooseAll(document));

// Files can be dropped where they can be chosen.
for (const place of document.querySelectorAll("[data-drop]")) {
  const input = place.querySelector("input[type=file]");
  for (const name of ["dragover", "dragenter"]) {
    place.addEventListener(name, (event) => { event.preventDefault(); place.classList.add("over"); });
  }
  place.addEventListener("dragleave", () => place.classList.remove("over"));
  place.addEventListener("drop", (event) => {
    event.preventDefault();
    place.classList.remove("over");
    if (event.dataTransfer.files.length) input.files = event.dataTransfer.files;
  });
}
