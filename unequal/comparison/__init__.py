"""What studies share that compare arms in blocks of trainings, and find out beforehand what they can see."""
