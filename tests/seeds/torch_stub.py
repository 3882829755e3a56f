"""In torch's place: enough for the snippets that only name it."""


class DataLoader:
    def __init__(self, dataset, sampler):
        self.dataset, self.sampler = dataset, sampler

    def __iter__(self):
        return iter([self.dataset[i] for i in self.sampler])
