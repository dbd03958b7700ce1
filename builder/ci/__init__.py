"""What a run on hosted CI needs beside what people do: a comment on a pull request, a commit on its branch."""
